"""Every way in which a text gives the answer away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import grade_text, graded_part
from rltf_verl.envs.text.number_words import as_number
from rltf_verl.envs.text.plain_text import MAX_TEXT, readings
from rltf_verl.feedback.guard.equality import (
    copied_share,
    find_phrase,
    find_reference,
    same_answer,
)
from rltf_verl.feedback.guard.spans import (
    answer_spans,
    is_place,
    quotations,
    reference_spans,
    undressed,
)
from rltf_verl.texts import one_line
from rltf_verl.types import Problem

LeakKind = Literal["answer", "part", "solution", "judged", "unreadable"]
"""The answer; a part of it; a copy of the worked solution; what only the additional check saw; a
text that is too long to be read."""

MIN_GRADED = 20
"""Characters of an answer, beside four times those of the reference: longer passages are prose."""
SHOWN = 80
"""Characters of the passage that a verdict quotes."""
OVERLAP = 0.5
"""Share of the worked solution's five-word sequences that a text may repeat."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A passage, `text[start:end]`, that gives the answer away."""

    kind: LeakKind
    start: int
    end: int

    def verdict(self, text: str) -> str:
        """One line: the kind, then the passage."""
        return f"{self.kind}: {one_line(text[self.start : self.end], SHOWN)}"


def find_leaks(env: Env, problem: Problem, text: str, attempt: str = "") -> list[Leak]:
    """Passages of `text` that give the answer of `problem` away, the most serious first; empty if
    nothing does.

    Args:
        env: finds the candidate answers, if it can, and grades them.
        problem: with the reference answer.
        text: the feedback.
        attempt: what it is about, which is wrong.

    A text of more than `MAX_TEXT` characters is one leak, `unreadable`: no finder has read it.
    """
    if len(text) > MAX_TEXT:
        return [Leak("unreadable", 0, len(text))]

    @cache
    def is_correct(answer: str) -> bool:
        # What the grader (user code) cannot read is not the answer.
        try:
            return grade_text(env, problem, answer).correct
        except Exception:
            return False

    leaks = set()
    for view in readings(text):
        for leak in _answers(env, problem, view.text, attempt, is_correct):
            leaks.add(Leak(leak.kind, *view.origin(leak.start, leak.end)))
    # By kind: `answer` comes before `part` in the alphabet, too.
    ordered = sorted(leaks, key=lambda leak: (leak.kind, leak.start, -leak.end))
    return [*ordered, *_copies(env, problem, text, attempt)]


def _answers(
    env: Env, problem: Problem, text: str, attempt: str, is_correct: Callable[[str], bool]
) -> Iterator[Leak]:
    if env.finds_candidates:
        for c in env.candidates(problem, text, attempt):
            if is_correct(c.answer):
                yield Leak("part" if c.part else "answer", c.start, c.end)
        return
    question, reference = graded_part(str(problem.data.get("question", ""))), problem.reference
    accepted = (reference, undressed(reference))
    asked = [question[start:end] for start, end in quotations(question)]
    tried, exact = _bare(attempt), [_bare(answer) for answer in accepted]

    def is_news(passage: str) -> bool:
        # A passage of the attempt is no news: it may have the words of the answer without its
        # signs, as `(0, 4)` and `[0, 4)`.
        bare = _bare(passage)
        return bare in exact or bare not in tried or as_number(passage) is not None

    def graded_right(passage: str) -> bool:
        # A long passage is no answer, and a quotation of the question is no news.
        return (
            not env.grades_async
            and len(passage) <= MIN_GRADED + 4 * len(reference)
            and passage not in question
            and not is_place(passage)
            and not any(expression in passage for expression in asked)
            and (is_correct(passage) or is_correct(f"\\boxed{{{passage}}}"))
        )

    for start, end in answer_spans(text):
        passage = text[start:end]
        same = any(same_answer(passage, answer) for answer in accepted)
        if is_news(passage) and (same or graded_right(passage)):
            yield Leak("answer", start, end)
    # Without the question no number is known to be new, and no name.
    if question:
        for span in reference_spans(question, reference, text):
            yield Leak("answer", *span)
        phrase = find_phrase(text, reference, f"{question}\n{attempt}")
        if phrase is not None:
            yield Leak("answer", *phrase)
    copied = find_reference(text, reference)
    if copied is not None and is_news(text[slice(*copied)]):
        yield Leak("answer", *copied)


def _bare(text: str) -> str:
    """Without what a reading blanks out."""
    return re.sub(r"[\s{}$\\]", "", text.casefold())


def _copies(env: Env, problem: Problem, text: str, attempt: str) -> list[Leak]:
    copied = copied_share(text, env.worked_solution(problem), attempt) > OVERLAP
    return [Leak("solution", 0, len(text))] if copied else []
