"""The prompt that a judge gets. The policy's text is quoted so that it cannot pose as part of the
prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise

from rltf_verl.feedback.base import FeedbackRequest, Subject
from rltf_verl.feedback.sentences import CORRECT, INCORRECT
from rltf_verl.prompts import render
from rltf_verl.prompts.quote import defused, fence_around, shown_of
from rltf_verl.types import Message


@dataclass(frozen=True)
class Style:
    """A judge's task; its words are in `prompts/judge/<name>.j2`."""

    words: int
    """Word limit in the judge's prompt."""
    reference: bool
    """It sees the reference answer unless the config overrides it."""
    marker: str = "Critique:"
    """Mark before the feedback in the reply."""
    conversation: bool = False
    """The judge sees all attempts of the episode and its feedback on each, not just the last
    attempt.
    """
    subject: Subject = "attempt"
    """Subject of its text."""


STYLES = {
    "verdict": Style(50, reference=False),
    "short": Style(50, reference=False),
    "full": Style(80, reference=False),
    "main_mistake": Style(80, reference=True),
    "hint": Style(200, reference=True),
    "strong_hint": Style(300, reference=True),
    "guide": Style(100, reference=True, marker="Guide:", subject="question"),
    "steps": Style(200, reference=True),
    "trajectory": Style(200, reference=True),
    "rubric": Style(200, reference=True),
    "teacher": Style(100, reference=True, marker="Hint:", conversation=True),
}


JUDGED = "(what the judge writes about this attempt)"
"""In place of a judge's feedback before a run."""

_FILLER = "Look at this line again, and think of what it has to say there."


def longest_feedback(words: int) -> str:
    """Placeholder with as many words as a judge may write.

    >>> longest_feedback(11).removeprefix(JUDGED)
    ' Look at this line'
    """
    rest = words - len(JUDGED.split())
    return " ".join([JUDGED, *islice(cycle(_FILLER.split()), max(0, rest))])


def judge_messages(
    style: str, request: FeedbackRequest, *, with_reference: bool
) -> tuple[Message, ...]:
    """The conversation with the judge that ends with the last of the request's turns."""
    marker, conversation = STYLES[style].marker, STYLES[style].conversation
    turns = request.turns if conversation else request.turns[-1:]
    first = _first(style, request, turns[0].attempt.text, with_reference)
    messages: list[Message] = [{"role": "user", "content": first}]
    for before, turn in pairwise(turns):
        attempt = defused(shown_of(turn.attempt.text, request.quote))
        feedback = before.feedback.text if before.feedback else ""
        text = render(
            "judge/_next",
            attempt=attempt,
            fence=fence_around([attempt]),
            marker=marker,
            words=STYLES[style].words,
        )
        messages += [
            {"role": "assistant", "content": f"{marker} {feedback}"},
            {"role": "user", "content": text},
        ]
    return tuple(messages)


def as_text(messages: Sequence[Message]) -> str:
    """A conversation for people to read."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)


def _first(style: str, request: FeedbackRequest, text: str, with_reference: bool) -> str:
    attempt = defused(shown_of(text, request.quote))
    question = defused(as_text(request.messages))
    solution = request.problem.data.get("solution") if STYLES[style].conversation else None
    reference = defused(str(solution or request.problem.reference)) if with_reference else None
    rubric = request.problem.data.get("rubric") or []
    return render(
        f"judge/{style}",
        question=question,
        attempt=attempt,
        attempt_lines=_number_lines(attempt),
        reference=reference,
        rubric=[str(item) for item in rubric],
        words=STYLES[style].words,
        marker=STYLES[style].marker,
        correct=CORRECT,
        incorrect=INCORRECT,
        fence=fence_around([question, attempt, reference or ""]),
    )


def _number_lines(text: str) -> str:
    """Its lines that hold anything, each with its number."""
    lines = [line for line in text.split("\n") if line.strip()]
    return "\n".join(f"[{i}] {line}" for i, line in enumerate(lines, start=1))
