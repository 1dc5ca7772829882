r"""Mathematics with a short answer: the release's sets (`math_sources`) or a file of one's own,
graded by math-verify.

`mode="official"` grades as the release: what `extract_boxed` finds, by math-verify with its
arguments swapped. The release gives it 1 s (`timeout_s=1`); the few-shot example it puts before
GSM8K problems is left out here. `mode="strict"` (default) does what a human would: the last box
counts whatever other braces there are; without one, what follows the last "answer is" or "answer:";
of a wrapped row whose prompt asks for `####` and for no box, what follows the last `####` counts
before all of these; an answer that equals the reference letter for letter is right, also where
math-verify cannot parse it; whole numbers are compared as numbers, with separators of thousands or
without, and words of four letters and more as words. `\text{}` and units are math-verify's
business. And a training problem that is also a test problem is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from rltf_verl.envs.base import INCORRECT, Env, FeedbackLevel, Splits, verdict
from rltf_verl.envs.math.build import MathData
from rltf_verl.envs.math.feedback import hint, place, reading
from rltf_verl.envs.math.text import plainly_equal, said_answer
from rltf_verl.envs.pool.pool import TRIAL_S, CallFailed, shared_pool
from rltf_verl.envs.text.boxed import HASHES, asks_for_hashes, last_hashed, released_box
from rltf_verl.kinds import Within
from rltf_verl.registry import require_package
from rltf_verl.types import Grade, Problem

SUFFIX = " Let's think step by step and output the final answer within \\boxed{}."

WHOLE = "a whole number"
"""The name in `math_worker`."""


class Math(Env):
    """The environment `math`. `Problem.data` holds `question`, `subset` and, if the source has one,
    `solution`.

    Args:
        mode: `official` or `strict` grading and splits, see the module.
        source: training problems: a name of `math_sources.SOURCES`, or a file (.parquet, .json,
            .jsonl, .csv).
        path: a local file or folder with the columns of the named source, instead of the hub.
        test_sets: names of `math_sources.TEST_SETS`, or files. None: the release's for this source;
            for a file, the requested number of its problems is held out.
        test_paths: test set -> a local file or folder instead of the hub.
        question_field: column of the question in files of one's own.
        answer_field: column of the answer in files of one's own.
        timeout_s: seconds for one comparison; then it is graded wrong, with the cause in
            `Grade.error`.
        num_workers: processes that compare, at most; started when there is something to compare.

    Raises:
        ValueError: an option has a value it cannot have, or math-verify is not installed; names the
            config key.
    """

    name = "math"
    packages = ("math-verify", "sympy", "datasets")

    def __init__(
        self,
        mode: Literal["official", "strict"] = "strict",
        source: str = "dapo",
        path: str | None = None,
        test_sets: Sequence[str] | None = None,
        test_paths: Mapping[str, str] | None = None,
        question_field: str = "question",
        answer_field: str = "answer",
        timeout_s: Annotated[float, Within(above=0, most=3600)] = 5.0,
        num_workers: Annotated[int, Within(1, 256)] = 4,
    ) -> None:
        require_package("math", "math_verify", "'rltf-verl[math]'")
        self._data = MathData(
            source,
            path,
            test_sets,
            test_paths or {},
            (question_field, answer_field),
            keep_apart=mode == "strict",
        )
        self._official = mode == "official"
        self._timeout_s, self._num_workers = timeout_s, num_workers

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Read the problems of both splits; the sources are finite, so the numbers are upper
        bounds.

        Training problems are shuffled as in the release. A test set gives its first `num_test`
        problems, each as many times as the release samples it (500 × 2, 30 × 4, …): a row per
        sample, one after the other.

        Raises:
            ValueError: a source that cannot be read; names the config key and what to do.
        """
        return self._data.build(self.name, seed, num_train, num_test)

    def prompt(self, problem: Problem) -> str:
        """The user message of the first turn."""
        return f"{problem.data['question']}{SUFFIX}"

    def grade(self, problem: Problem, text: str) -> Grade:
        r"""Compare the boxed answer with the reference. May wait for a grader process."""
        answer = self._answer(problem, text)
        if answer is None:
            return Grade(correct=False, format_ok=False)
        # Most verdicts need no algebra, and no other process.
        if not self._official and (correct := plainly_equal(answer, problem.reference)) is not None:
            kinds = {} if correct else {"kind": WHOLE, "wanted_kind": WHOLE}
            return Grade(correct, format_ok=True, parsed=answer, details={"read": answer, **kinds})
        pool = shared_pool("rltf_verl.envs.math.worker", self._num_workers)
        try:
            compared = pool.call(
                "compare", answer, problem.reference, self._official, deadline_s=self._timeout_s
            )
        except CallFailed as error:
            return Grade(
                correct=False, format_ok=True, parsed=answer, error=f"comparing answers: {error}"
            )
        return Grade(compared.pop("correct"), format_ok=True, parsed=answer, details=compared)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say how the answer was read (`location`), what kind of thing it should be (`hint`), or
        the answer (`full`).

        `hint` compares kinds only (a whole number, an interval, a tuple of 3 values, …) and never
        says a value.
        """
        if grade.correct or level == "verdict":
            return verdict(grade)
        sentences = [INCORRECT, reading(self._answer(problem, text), grade, place(problem))]
        if level == "hint":
            sentences.append(hint(grade))
        if level == "full":
            sentences.append(f"The answer is {problem.reference}.")
        return " ".join(filter(None, sentences))

    def trouble(self) -> str | None:
        """The error of a comparison of equal answers: math-verify may be installed and broken, and
        would then grade everything wrong.
        """
        pool = shared_pool("rltf_verl.envs.math.worker", self._num_workers)
        try:
            compared = pool.call("compare", "1/2", "0.5", self._official, deadline_s=TRIAL_S)
        except CallFailed as error:
            cause = str(error)
        else:
            cause = "" if compared["correct"] else "it takes 1/2 and 0.5 for different"
        if not cause:
            return None
        return (
            f"rltf.env.name=math: math-verify cannot compare answers ({cause}); install it again:"
            " pip install --force-reinstall math-verify"
        )

    def subset(self, problem: Problem) -> str:
        """The source or test set."""
        return str(problem.data["subset"])

    def data_of(self, question: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """In verl's GSM8K form a row's worked solution, if it has one, is `extra_info.answer` or
        `.solution`.
        """
        extra = row.get("extra_info") or {}
        solution = extra.get("solution") or extra.get("answer")
        data = {"question": question, "subset": str(row.get("data_source"))}
        data |= {"form": HASHES} if asks_for_hashes(question) else {}
        return {**data, "solution": solution} if isinstance(solution, str) else data

    def worked_solution(self, problem: Problem) -> str:
        """The solution that came with the problem."""
        return str(problem.data.get("solution", ""))

    def _answer(self, problem: Problem, text: str) -> str | None:
        if not self._official:
            hashed = last_hashed(text) if problem.data.get("form") == HASHES else None
            return hashed or said_answer(text)
        return released_box(text)
