"""What is known of each turn of an episode, as numbers: what every count of episodes is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rltf_verl.feedback import provider_names
from rltf_verl.runlog.turns import Record, answer, feedback_failed, format_ok, says_nothing
from rltf_verl.types import TECHNICAL_STOPS


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """One turn; yes is 1, no is 0."""

    parent: float
    """Position in the episode of the turn that it revises; −1: none."""
    correct: float
    """The grader said so."""
    format_ok: float
    """An answer was found, and the policy ended the text itself."""
    ended: float
    """The policy ended the text itself."""
    reward: float
    response_tokens: float
    grader_error: float
    """The grader itself failed; the attempt counts as wrong."""
    ungraded: float
    """The grader was out of reach; the attempt counts as nothing."""
    prompt_too_long: float
    """No turn follows, because its prompt would not fit."""
    not_asked: float
    """No turn follows, because feedback was not wanted."""
    cut: float
    """No turn follows, for a technical reason (`types.TECHNICAL_STOPS`)."""
    changed: float
    """Another answer than that of the turn that it revises."""
    repeated: float
    """The answer of an earlier turn of its line."""
    feedback: float
    """Feedback was given."""
    feedback_failed: float
    """Feedback was asked for, and none came."""
    feedback_fallback: float
    """The fixed sentence was given, because the provider failed."""
    feedback_words: float
    feedback_latency_s: float
    no_op: float
    """The feedback says no more than right or wrong."""
    withheld: float
    """The leak guard kept the feedback back."""
    feedback_leak: float
    """The provider's text gave the answer away, also if the guard changed it or kept it back; −1:
    nobody looked.
    """
    feedback_provider: float
    """Whose text that was, as a position in `provider_names()`; −1: nobody looked, or another
    provider.
    """
    has_teacher: float = 0.0
    """The attempt has a teacher."""
    own_feedback_tokens: float = 0.0
    """Tokens of feedback that the policy wrote; the log does not have them."""
    graded: float = float("nan")
    """Reward before shaping; the log does not have it."""
    version: float = -1.0
    """Training step of the oldest parameters that sampled it; −1: not known."""


def turn_facts(turns: Sequence[Record]) -> list[TurnFacts]:
    """Of each turn of an episode's record."""
    facts: list[TurnFacts] = []
    answers = [answer(turn) for turn in turns]
    earlier: list[frozenset[str]] = []
    for turn, own in zip(turns, answers, strict=True):
        parent = turn["parent"]
        earlier.append(frozenset() if parent is None else earlier[parent] | {answers[parent]})
        changed = parent is not None and own != answers[parent]
        facts.append(_facts(turn, changed=changed, repeated=own in earlier[-1]))
    return facts


def _facts(turn: Record, *, changed: bool, repeated: bool) -> TurnFacts:
    feedback, withheld, stop = turn["feedback"], turn.get("withheld"), turn["stop"]
    leak, provider = _leak(withheld or feedback)
    return TurnFacts(
        parent=float(-1 if turn["parent"] is None else turn["parent"]),
        correct=float(turn["grade"]["correct"]),
        format_ok=float(format_ok(turn)),
        ended=float(turn["ended"]),
        reward=float(turn["reward"]),
        response_tokens=float(turn.get("num_tokens") or 0),
        grader_error=float(turn["grade"]["error"] is not None),
        ungraded=float(stop == "ungraded"),
        prompt_too_long=float(stop == "prompt_too_long"),
        not_asked=float(stop == "not_asked"),
        cut=float(stop in TECHNICAL_STOPS),
        changed=float(changed),
        repeated=float(repeated),
        feedback=float(feedback is not None),
        feedback_failed=float(feedback_failed(turn)),
        feedback_fallback=float(feedback is not None and feedback["fallback"]),
        feedback_words=float(len(feedback["text"].split())) if feedback else 0.0,
        feedback_latency_s=float(feedback["latency_s"]) if feedback else 0.0,
        no_op=float(feedback is not None and says_nothing(feedback["text"])),
        withheld=float(withheld is not None),
        feedback_leak=leak,
        feedback_provider=provider,
        has_teacher=float(turn.get("teacher") is not None),
    )


def _leak(feedback: Record | None) -> tuple[float, float]:
    """`feedback_leak` and `feedback_provider` of the text that the provider wrote."""
    if feedback is None or feedback.get("leak") is None:
        return -1.0, -1.0
    names, provider = provider_names(), feedback["provider"]
    return float(feedback["leak"] != ""), float(names.index(provider) if provider in names else -1)
