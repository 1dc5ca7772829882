"""Facts of episodes -> the numbers of docs/metrics.md, the same in training, validation,
evaluation, the log's statistics and the viewer.

An attempt whose grader was out of reach is neither right nor wrong: it is in no denominator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rltf_verl.feedback import provider_names
from rltf_verl.runlog.turns import (
    Record,
    answer,
    feedback_failed,
    format_ok,
    recites,
    says_nothing,
)
from rltf_verl.texts import epistemic_rate, thought_share
from rltf_verl.types import END_REASONS, TECHNICAL_STOPS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """One turn; yes is 1, no is 0."""

    correct: float
    """The grader accepted the answer."""
    format_ok: float
    """An answer was found, and the policy ended the text itself."""
    ended: float
    """The policy ended the text itself."""
    reward: float
    response_tokens: float
    grader_error: float
    """The grader itself failed; the attempt counts as wrong."""
    ungraded: float
    """The grader was unavailable; the attempt is excluded."""
    prompt_too_long: float
    """No turn follows, because its prompt would not fit."""
    not_asked: float
    """No turn follows, because feedback was not wanted."""
    cut: float
    """No turn follows, for a technical reason (`types.TECHNICAL_STOPS`)."""
    changed: float
    """Another answer than that of the turn before."""
    repeated: float
    """The answer of an earlier turn."""
    feedback: float
    """Feedback was given."""
    feedback_failed: float
    """Feedback was wanted, and none came."""
    feedback_fallback: float
    """The fixed sentence was given, because the provider failed."""
    feedback_words: float
    feedback_latency_s: float
    no_op: float
    """The feedback has no more than right or wrong."""
    recited: float
    """The answer has the first sentence of the feedback on it."""
    withheld: float
    """The leak guard kept the feedback back."""
    feedback_leak: float
    """The provider's text gave the answer away, also if the guard changed it or kept it back; −1:
    not checked.
    """
    feedback_provider: float
    """Whose text that was, as a position in `provider_names()`; −1: not checked, or another
    provider.
    """
    thoughts: float = 0.0
    """Share of the text's characters that are thoughts."""
    epistemic: float = 0.0
    """Words of doubt, of 100 words."""
    has_teacher: float = 0.0
    """The attempt has a teacher."""
    own_feedback_tokens: float = 0.0
    """Tokens of feedback that the policy wrote; the log does not have them."""
    graded: float = float("nan")
    """Reward before shaping; the log does not have it."""
    steps: float = 0.0
    """Answers of a trajectory; 0: the attempt is one answer."""
    end: float = -1.0
    """Why the trajectory ended, as a position in `END_REASONS`; −1: it is one answer."""
    drifts: float = 0.0
    """Observations before which the template did not keep the sampled tokens."""


def turn_facts(turns: Sequence[Record]) -> list[TurnFacts]:
    """The facts of each turn of an episode's record."""
    facts: list[TurnFacts] = []
    answers = [answer(turn) for turn in turns]
    for k, (turn, text) in enumerate(zip(turns, answers, strict=True)):
        changed = k > 0 and text != answers[k - 1]
        facts.append(_facts(turn, changed=changed, repeated=text in answers[:k]))
    return facts


def _facts(turn: Record, *, changed: bool, repeated: bool) -> TurnFacts:
    grade, stop = turn["grade"], turn["stop"]
    # Names of `TurnFacts`; all become floats, since the transfer queue holds them in one tensor.
    facts: dict[str, Any] = {
        "correct": grade["correct"],
        "format_ok": format_ok(turn),
        "ended": turn["ended"],
        "reward": turn["reward"],
        "response_tokens": turn.get("num_tokens") or 0,
        "grader_error": grade["error"] is not None,
        "ungraded": stop == "ungraded",
        "prompt_too_long": stop == "prompt_too_long",
        "not_asked": stop == "not_asked",
        "cut": stop in TECHNICAL_STOPS,
        "changed": changed,
        "repeated": repeated,
        "thoughts": thought_share(turn["text"]),
        "epistemic": epistemic_rate(turn["text"]),
        "steps": len(turn.get("steps", ())),
        "end": END_REASONS.index(turn["end"]) if "end" in turn else -1,
        "drifts": turn.get("num_drifts", 0),
    }
    facts |= _feedback_facts(turn)
    return TurnFacts(**{name: float(value) for name, value in facts.items()})


def _feedback_facts(turn: Record) -> dict[str, Any]:
    feedback, withheld = turn["feedback"], turn.get("withheld")
    leak, provider = _leak(withheld or feedback)
    text, latency_s = (feedback["text"], feedback["latency_s"]) if feedback else ("", 0.0)
    return {
        "feedback": feedback is not None,
        "feedback_failed": feedback_failed(turn),
        "feedback_fallback": feedback is not None and feedback["fallback"],
        "feedback_words": len(text.split()),
        "feedback_latency_s": latency_s,
        "no_op": feedback is not None and says_nothing(text),
        "recited": recites(turn["text"], text),
        "withheld": withheld is not None,
        "feedback_leak": leak,
        "feedback_provider": provider,
        "has_teacher": turn.get("teacher") is not None,
    }


def _leak(feedback: Record | None) -> tuple[float, float]:
    """`feedback_leak` and `feedback_provider` of the text that the provider wrote."""
    if feedback is None or feedback.get("leak") is None:
        return -1.0, -1.0
    names, provider = provider_names(), feedback["provider"]
    return float(feedback["leak"] != ""), float(names.index(provider) if provider in names else -1)


class Cases(NamedTuple):
    """Values whose mean is a number: C values ([C]), and the episode of each ([C])."""

    values: Floats
    episode: Integers
    least: float = 0.0
    """The least that a value can be: −1 of a difference of shares. The most is 1."""

    def mean(self) -> float | None:
        """None of nothing."""
        return float(self.values.mean()) if len(self.values) else None


@dataclass(frozen=True)
class EpisodeTable:
    """S episodes as their n turns, one episode after the other."""

    fact: Mapping[str, Floats]
    """[n] each field of `TurnFacts`."""
    episode: Integers
    """[n], ascending."""
    horizon: Floats
    """[S] most turns that the episode was to have."""
    own: Mapping[str, Floats] = field(default_factory=dict)
    """Name of an environment's number (`Grade.numbers`) -> [C, 2] its values and the turn, of n, of
    each; the transfer queue does not have them.
    """

    @classmethod
    def of(cls, records: Sequence[Record]) -> EpisodeTable:
        """The table of an episode log's episodes."""
        turns = [turn_facts(record["turns"]) for record in records]
        facts = list(chain.from_iterable(turns))
        sizes = np.array(list(map(len, turns)), dtype=np.int64)
        horizons = [record.get("horizon") or np.inf for record in records]
        own = defaultdict[str, list[tuple[float, int]]](list)
        for at, turn in enumerate(chain.from_iterable(record["turns"] for record in records)):
            for name, values in turn["grade"].get("numbers", {}).items():
                own[name] += [(value, at) for value in values]
        return cls(
            {f.name: np.array([getattr(t, f.name) for t in facts]) for f in fields(TurnFacts)},
            np.repeat(np.arange(len(turns)), sizes),
            np.array(horizons),
            {name: np.array(pairs) for name, pairs in own.items() if pairs},
        )

    def answers(self, k: int) -> dict[str, Cases]:
        """Numbers of the attempts at 0-based turn k, and of the episodes that may reach it."""
        here, fact = self.depth == k, self.fact
        graded = here & self._graded
        # all numbers of a turn at one place, by the names that docs/metrics.md defines
        return {
            "acc": self._cases(self._right, graded),
            "format": self._cases(fact["format_ok"], graded & (fact["grader_error"] == 0)),
            "reward": self._cases(fact["reward"], graded),
            "tokens": self._cases(fact["response_tokens"], here),
            "truncated": self._cases(1 - fact["ended"], here),
            "thoughts": self._cases(fact["thoughts"], here),
            "epistemic": self._cases(fact["epistemic"], here),
            "solved": self._solved(k),
            "standing": self._standing(k),
            "improvement": self._improvement(k),
            **{name: self._own(here, *columns.T) for name, columns in self.own.items()},
        }

    def _own(self, here: Bools, values: Floats, turn: Floats) -> Cases:
        at = turn.astype(np.int64)
        return Cases(values[here[at]], self.episode[at[here[at]]])

    def revisions(self, k: int | None = None) -> dict[str, Cases]:
        """Numbers of the graded revisions of graded attempts: those at 0-based turn k, or all."""
        # first turns read another episode's turn, which the last condition takes away
        graded, before, after = np.roll(self._graded, 1), np.roll(self._right, 1), self._right
        pair = self._graded & graded & (self.depth > 0)
        if k is not None:
            pair &= self.depth == k
        # each over its own denominator: all pairs, or those with one side right or wrong
        return {
            "fixed": self._cases(after & ~before, pair),
            "broken": self._cases(before & ~after, pair),
            "gain": self._cases(after.astype(float) - before, pair),
            "corrected": self._cases(after, pair & ~before),
            "spoiled": self._cases(~after, pair & before),
            "plasticity": self._cases(self.fact["changed"], pair),
            "repeated": self._cases(self.fact["repeated"], pair),
        }

    def friction(self) -> Cases:
        """The episodes that began wrong and have a revision: wrong at the end."""
        first, last = self._at(0), self._ends
        began_wrong = self._graded[first] & ~self._right[first]
        counts = self._graded[last] & began_wrong & (self.depth[last] > 0)
        return self._of_episodes(~self._right[last], counts)

    def share_of_episodes(self, turns: Bools) -> float:
        """Share of all episodes that have one of these turns ([n])."""
        return len(np.unique(self.episode[turns])) / len(self.horizon)

    def graders(self) -> dict[str, Cases]:
        """Numbers of all attempts."""
        every = np.ones(len(self.episode), dtype=bool)
        return {
            "error_share": self._cases(self.fact["grader_error"], every),
            "ungraded_share": self._cases(self.fact["ungraded"], every),
        }

    def feedback(self) -> dict[str, Cases]:
        """Numbers of the feedback that was wanted, written, looked at and given."""
        fact = self.fact
        has_text, withheld, failed = (
            fact[name] > 0 for name in ("feedback", "withheld", "feedback_failed")
        )
        looked = fact["feedback_leak"] >= 0
        # Each share is over the answers that could have it: asked about, with a text, or looked at.
        numbers = {
            "failed_share": self._cases(failed, has_text | failed),
            "fallback_share": self._cases(fact["feedback_fallback"], has_text | failed),
            "withheld_share": self._cases(withheld, has_text | failed),
            "latency_s": self._cases(fact["feedback_latency_s"], has_text),
            "words": self._cases(fact["feedback_words"], has_text),
            "no_op": self._cases(fact["no_op"], has_text),
            "recited": self._cases(fact["recited"], has_text),
            "leak_share": self._cases(fact["feedback_leak"], looked),
        }
        names = (*provider_names(), "other")  # the last one is at −1
        for i in np.unique(fact["feedback_provider"][looked]).astype(int):
            by_provider = looked & (fact["feedback_provider"] == i)
            numbers[f"leak_share/{names[i]}"] = self._cases(fact["feedback_leak"], by_provider)
        return numbers

    def steps(self) -> dict[str, Cases]:
        """Numbers of the trajectories."""
        fact = self.fact
        played = fact["end"] >= 0
        return {
            "mean": self._cases(fact["steps"], played),
            "drift": self._cases(fact["drifts"], played),
            **{
                f"ends/{reason}": self._cases(fact["end"] == i, played)
                for i, reason in enumerate(END_REASONS)
            },
        }

    @cached_property
    def depth(self) -> Integers:
        """[n] 0-based number of the turn in its episode."""
        return np.arange(len(self.episode)) - np.searchsorted(self.episode, self.episode)

    @cached_property
    def num_turns(self) -> int:
        """Turns of the longest episode."""
        return int(self.depth.max(initial=-1)) + 1

    @cached_property
    def _graded(self) -> Bools:
        graded: Bools = self.fact["ungraded"] == 0
        return graded

    @cached_property
    def _right(self) -> Bools:
        return self._graded & (self.fact["correct"] > 0)

    @cached_property
    def _ends(self) -> Integers:
        """[S] the last turn of each episode."""
        return np.flatnonzero(np.diff(self.episode, append=-1))

    def _at(self, k: int) -> Integers:
        """[S] turn k of each episode; the last one of a shorter one."""
        return np.asarray(np.minimum(self._ends - self.depth[self._ends] + k, self._ends))

    def _standing(self, k: int) -> Cases:
        """The last answer by turn k is right."""
        at = self._at(k)
        return self._of_episodes(self._right[at], self._graded[at] & self._may_reach(k))

    def _solved(self, k: int) -> Cases:
        """Some answer by turn k is right."""
        at, right = self._at(k), self._so_far(self._right)
        decided = right | ~self._so_far(~self._graded)
        return self._of_episodes(right[at], decided[at] & self._may_reach(k))

    def _improvement(self, k: int) -> Cases:
        """`standing` after turn k minus that after the first, in the same episodes."""
        now, first = self._standing(k), self._standing(0)
        # an episode counts if it is graded at both turns
        both, i, j = np.intersect1d(now.episode, first.episode, return_indices=True)
        return Cases(now.values[i] - first.values[j], both, least=-1.0)

    def _may_reach(self, k: int) -> Bools:
        """[S] not in validations of first answers only."""
        return self.horizon[self.episode[self._ends]] > k

    def _so_far(self, is_one: Bools) -> Bools:
        """[n] whether the turn or one before it is one of these ([n])."""
        total, first = np.cumsum(is_one), np.arange(len(is_one)) - self.depth
        return np.asarray(total > (total - is_one)[first])

    def _of_episodes(self, values: Bools, counted: Bools) -> Cases:
        """[S] values of the counted episodes."""
        return Cases(values[counted].astype(np.float64), self.episode[self._ends][counted])

    def _cases(self, values: NDArray[np.generic], where: Bools) -> Cases:
        """[n] values of these turns ([n])."""
        return Cases(values[where].astype(np.float64), self.episode[where])
