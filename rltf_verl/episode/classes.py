"""The classes of tokens: what of an answer an objective trains (`rltf.token_classes`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from rltf_verl.config.objectives import ReadClass, TokenClass
from rltf_verl.episode.mentions import touching
from rltf_verl.policy import Policy
from rltf_verl.prompts.quote import quoted
from rltf_verl.texts import THOUGHTS, THOUGHTS_END
from rltf_verl.types import CONTEXT, Attempt, Episode, Row, Step


def token_classes(policy: Policy, attempt: Attempt) -> list[TokenClass | ReadClass | None]:
    """Per token: `think` up to the end of an answer's thoughts, `action` in its calls (in the whole
    answer where there are none), `format` between them, `observation` in what the environment
    answered; None: what the chat template writes around that.
    """
    classes: list[TokenClass | ReadClass | None] = [None] * len(attempt.response_ids)
    steps = attempt.trajectory.steps if attempt.trajectory is not None else ()
    acted = [step.acted for step in steps] or [(0, len(attempt.response_ids))]
    for (start, end), (first, last) in zip(attempt.spans, acted, strict=True):
        thoughts = _thoughts(policy, attempt.response_ids[start:end])
        for i in range(start, end):
            called: TokenClass = "action" if first <= i < last else "format"
            classes[i] = "think" if thoughts[i - start] else called
    for step, following in pairwise(steps):
        between = attempt.response_ids[step.end : following.start]
        observed = _in_observations(policy, between, step.results)
        for i, is_observed in enumerate(observed, start=step.end):
            classes[i] = "observation" if is_observed else None
    return classes


def _thoughts(policy: Policy, ids: tuple[int, ...]) -> list[bool]:
    """Per token whether it belongs to the thoughts or to their marks."""
    pieces = policy.pieces(ids)
    text = "".join(pieces)
    # The last closing mark: thoughts may quote one.
    before, closed, after = text.rpartition(THOUGHTS_END)
    end = len(before) + len(closed)
    return touching(pieces, [(0, end), (end, len(text))] if THOUGHTS in after else [(0, end)])


def _in_observations(policy: Policy, ids: tuple[int, ...], results: Sequence[Step]) -> list[bool]:
    """Per token between two answers whether it holds an observation; none that the template has
    changed does.
    """
    pieces = policy.pieces(ids)
    text, spans, end = "".join(pieces), [], 0
    for result in results:
        observation = result.observation.strip()  # as it is, in what another loop has played
        observation = observation if observation in text else quoted(policy, observation)
        start = text.find(observation, end)
        if observation and start >= 0:
            end = start + len(observation)
            spans.append((start, end))
    return touching(pieces, spans)


def classes_of(policy: Policy, row: Row, episode: Episode) -> list[TokenClass | ReadClass | None]:
    """`token_classes` of a row of an episode's answers; None between two attempts."""
    classes: list[TokenClass | ReadClass | None] = [None] * len(row.role)
    for turn in set(row.turn):
        of_turn = token_classes(policy, episode.turns[turn].attempt)
        for i, kind in enumerate(of_turn, start=row.turn.index(turn)):
            # A retry's row holds only the first tokens of the attempt before it
            # (`first_prompt_row`).
            if i < len(classes) and row.turn[i] == turn:
                classes[i] = kind
    return classes


def with_classes(policy: Policy, row: Row, episode: Episode, chosen: Collection[TokenClass]) -> Row:
    """The row of an episode's answers, whose tokens of other classes are context."""
    classes = classes_of(policy, row, episode)
    role = (r if kind in chosen else CONTEXT for r, kind in zip(row.role, classes, strict=True))
    return replace(row, role=tuple(role))
