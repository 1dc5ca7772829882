"""Attempts that the policy did not play here: of another loop, from its token ids, and of a record,
from its text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from rltf_verl.episode.acting import trajectory_text
from rltf_verl.policy import ActingPolicy, Policy
from rltf_verl.types import Attempt, Grade, PlayedStep, Step, Trajectory

LEAST_RIGHT = 1.0
"""Least reward of a right attempt."""
ROUNDING = 1e-4
"""Largest log-prob of a sampler that rounds."""


@dataclass(frozen=True)
class ForeignAttempt:
    """An attempt that another loop has played."""

    attempt: Attempt
    reward: float | None = None
    """None: the environment grades the last answer."""
    feedback: str | None = None
    """Feedback, not checked by the leak guard. None: the run's provider gives it."""

    async def grade(self, by_env: Callable[[], Awaitable[Grade]]) -> Grade:
        """By the reward, else by the environment."""
        if self.reward is None:
            return await by_env()
        return Grade(correct=self.reward >= LEAST_RIGHT, format_ok=True, score=self.reward)


async def recorded_attempt(policy: Policy, prompt_ids: tuple[int, ...], text: str) -> Attempt:
    """The attempt of a recorded answer, which has no log-probs and no sampled token. `ended` is
    False if the answer budget cuts it.
    """
    ids, end = await policy.encode_answer(text), await policy.encode_answer("")
    return Attempt(
        prompt_ids,
        ids,
        # verl's queue wants a number for each token; no role reads these.
        (0.0,) * len(ids),
        text,
        # The text is encoded without control tokens, so only a whole answer has the end token.
        ended=ids[-len(end) :] == end,
        info={"num_tokens": 0},
        recorded=True,
    )


def attempt_of(
    policy: ActingPolicy,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    mask: Sequence[int],
    log_probs: Sequence[float] | None,
    *,
    vocabulary: int,
    ended: bool,
    info: Mapping[str, Any],
) -> Attempt:
    """The attempt of another loop's ids. Each stretch that the policy sampled is a step, and its
    observation is all that follows, words of the chat template included.

    Args:
        policy: knows the text of tokens, and how many a response can have.
        prompt_ids: the first prompt.
        response_ids: all after it.
        mask: of each response token, whether the policy sampled it.
        log_probs: the sampler's, one for each response token.
        vocabulary: number of tokens that there are.
        ended: the policy ended its last answer by itself.
        info: as of `Attempt`.

    Raises:
        ValueError: the lists do not fit together, nothing was sampled, or ids, log-probs or the
            length are out of range.
    """
    ids = tuple(response_ids)
    _refuse_lengths(ids, mask, log_probs)
    # Not strict: without log-probs the first list is empty.
    own = [p for p, mine in zip(log_probs or (), mask, strict=False) if mine]
    troubles = {
        f"more than {policy.response_budget} response tokens": len(ids) > policy.response_budget,
        f"an id that is none of {vocabulary}": not all(
            0 <= i < vocabulary for i in (*prompt_ids, *ids)
        ),
        "a log-prob that is not finite and at most 0": not all(-inf < p <= ROUNDING for p in own),
    }
    for trouble, is_so in troubles.items():
        if is_so:
            raise ValueError(f"a foreign trajectory has {trouble}")
    steps = tuple(_steps(policy, ids, mask))
    trajectory = Trajectory(steps, "answered" if ended else "length")
    of_sampled = None
    if log_probs is not None:
        of_sampled = tuple(p if m else 0.0 for p, m in zip(log_probs, mask, strict=True))
    return Attempt(
        tuple(prompt_ids),
        ids,
        of_sampled,
        trajectory_text(trajectory),
        ended,
        info={**info, "num_tokens": sum(map(bool, mask))},
        trajectory=trajectory,
    )


def _refuse_lengths(
    ids: Sequence[int], mask: Sequence[int], log_probs: Sequence[float] | None
) -> None:
    num = len(ids)
    lengths = {num, len(mask), num if log_probs is None else len(log_probs)}
    if len(lengths) > 1 or not any(mask):
        raise ValueError(
            f"a foreign trajectory has {num} response tokens, a mask of {len(mask)} with"
            f" {sum(mask)} sampled and {len(log_probs or ())} log-probs; give each token its mask"
            " and log-prob, at least one of them sampled"
        )


def _steps(policy: ActingPolicy, ids: tuple[int, ...], mask: Sequence[int]) -> Iterator[PlayedStep]:
    """An observation reaches to the next sampled stretch, the last one to the end."""
    starts = [i for i, mine in enumerate(mask) if mine and not (i and mask[i - 1])]
    for start, following in zip(starts, [*starts[1:], len(ids)], strict=True):
        end = start + sum(map(bool, mask[start:following]))
        text = "".join(policy.pieces(ids[start:end]))
        after = "".join(policy.pieces(ids[end:following]))
        results = (Step(after),) if following > end else ()
        yield PlayedStep(text, (), results, start, end, (start, end))
