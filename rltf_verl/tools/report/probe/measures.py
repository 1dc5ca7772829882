"""What episodes of a base model say about a run to come: shares with intervals, lengths.
Definitions: docs/probe.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from rltf_verl.runlog.numbers import Cases, EpisodeTable
from rltf_verl.runlog.turns import Record, answer, graded, pairs, right, says_nothing, wrong
from rltf_verl.tools.report.evaluation.bootstrap import (
    Estimate,
    estimates,
    mean_over_problems,
    share,
)
from rltf_verl.tools.report.evaluation.table import problem_key
from rltf_verl.tools.report.probe.groups import chance_all_equal, group_of

Case = tuple[str, float]
"""Name of a measure, and the value of one case of it."""

OVER_PROBLEMS = frozenset(
    {
        "first_right",
        "second_right",
        "improvement",
        "dead_groups",
        "all_wrong_groups",
        "all_right_groups",
        "first_format",
    }
)
"""Means over problems, as `rltf eval` has them; the others are shares of all cases together."""

NAMES = (
    "first_right",
    "second_right",
    "improvement",
    "first_format",
    "dead_groups",
    "all_wrong_groups",
    "all_right_groups",
    "wrong_changed",
    "corrected",
    "spoiled",
    "guard_found",
    "tells",
    "reaches",
    "withheld",
    "says_nothing",
    "failed",
    "mentions",
    "truncated",
    "over_budget",
    "shortened",
)


@dataclass(frozen=True)
class TrainingRun:
    """The sizes of the run to come."""

    problems: int
    """Per step, `data.train_batch_size`."""
    sessions: int
    """Per problem, `actor_rollout_ref.rollout.n`."""
    prompt_tokens: int
    """`data.max_prompt_length`."""
    answer_tokens: int
    """`data.max_response_length`."""


@dataclass(frozen=True)
class Reader:
    """What only other layers can see in a text."""

    tells: Callable[[Record, str, str], bool | None]
    """(episode, feedback, the wrong attempt) -> it holds the answer; None: cannot be said."""
    mentions: Callable[[str], bool]
    """An answer speaks of the feedback."""


@dataclass(frozen=True)
class Measure:
    """A share or a mean of shares, and what it was taken of."""

    estimate: Estimate
    hits: float
    """Sum of the cases' values; of a share: how many there were."""
    cases: int


@dataclass(frozen=True)
class Spread:
    """Lengths."""

    cases: int
    median: float
    p90: float
    longest: float


@dataclass(frozen=True)
class Measured:
    """All of it."""

    problems: int
    sessions: int
    groups: int
    """Those with at least `TrainingRun.episodes` graded first answers."""
    shares: Mapping[str, Measure]
    """By `NAMES`."""
    lengths: Mapping[str, Spread | None] = field(default_factory=dict)
    """`feedback_words`, `answer_tokens`, `later_prompt_tokens`; None where nobody counted."""


def measure(records: Sequence[Record], run: TrainingRun, reader: Reader, seed: int = 0) -> Measured:
    """Everything that can be counted in the episodes.

    Args:
        records: episodes of an episode log, at least one.
        run: sizes; groups are judged at its `episodes`.
        reader: looks into texts.
        seed: of the resamples.
    """
    # Sorted: intervals do not depend on which episode ended first.
    number = {problem: k for k, problem in enumerate(sorted(set(map(problem_key, records))))}
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        problem = number[problem_key(record)]
        groups[group_of(record)].append(record)
        for name, value in _cases(record, run, reader):
            found[name].append((problem, value))
    for name, cases in _counted(EpisodeTable.of(records)).items():
        problems = (number[problem_key(records[episode])] for episode in cases.episode)
        found[name] = list(zip(problems, cases.values.tolist(), strict=True))
    for episodes in groups.values():
        for name, value in _group_cases(episodes, run.sessions):
            found[name].append((number[problem_key(episodes[0])], value))
    return Measured(
        len(number),
        len(records),
        len(found["dead_groups"]),
        _shares(found, len(number), seed),
        _lengths(records),
    )


def _shares(
    found: Mapping[str, list[tuple[int, float]]], num_problems: int, seed: int
) -> dict[str, Measure]:
    ratios = []
    for name in NAMES:
        cases = found.get(name, [])
        problem = np.array([p for p, _ in cases], dtype=np.int64)
        values = np.array([v for _, v in cases], dtype=np.float64)
        over_problems = name in OVER_PROBLEMS
        ratio = (
            mean_over_problems(values, problem, num_problems)
            if over_problems
            else share(values, problem, num_problems)
        )
        ratios.append(ratio)
    values_of = {name: [v for _, v in found.get(name, [])] for name in NAMES}
    return {
        name: Measure(estimate, sum(values_of[name]), len(values_of[name]))
        for name, estimate in zip(NAMES, estimates(ratios, seed), strict=True)
    }


def _cases(record: Record, run: TrainingRun, reader: Reader) -> Iterator[Case]:
    turns = record["turns"]
    yield from _answers(turns, run, reader)
    for before, after in pairs(turns):
        if wrong(before):
            yield "wrong_changed", float(answer(before) != answer(after))
    for turn in turns:
        yield from _feedback(record, turn, reader)
    later = sum(turn["parent"] is not None for turn in turns)
    for k in range(later):
        yield "shortened", float(k < record.get("num_shortened", 0))


def _answers(turns: Sequence[Record], run: TrainingRun, reader: Reader) -> Iterator[Case]:
    for turn in turns:
        yield "truncated", float(not turn["ended"])
        tokens = turn.get("prompt_tokens")
        if turn["stop"] == "prompt_too_long":
            yield "over_budget", 1.0
        if turn["parent"] is not None:
            yield "mentions", float(reader.mentions(turn["text"]))
            if tokens is not None:
                yield "over_budget", float(tokens > run.prompt_tokens)


def _counted(table: EpisodeTable) -> dict[str, Cases]:
    """What all tools count alike, under the probe's names."""
    first, second, revisions = table.answers(0), table.answers(1), table.revisions()
    return {
        "first_right": first["acc"],
        "first_format": first["format"],
        "second_right": second["standing"],
        "improvement": second["improvement"],
        "corrected": revisions["corrected"],
        "spoiled": revisions["spoiled"],
    }


def _feedback(record: Record, turn: Record, reader: Reader) -> Iterator[Case]:
    """About one attempt: what the provider said, what of it reached the policy, and whether it said
    anything.
    """
    given, withheld = turn["feedback"], turn.get("withheld")
    stopped = turn["stop"] == "feedback_unavailable"
    if given or stopped:
        yield "failed", float(not withheld and (stopped or bool(given["fallback"])))
    for said in (given, withheld):
        if not said or said["fallback"]:
            continue
        yield "withheld", float(said is withheld)
        if said.get("leak") is not None:
            yield "guard_found", float(said["leak"] != "")
        if wrong(turn):
            yield "says_nothing", float(says_nothing(said["text"]))
            yield from _told(record, turn, said, reader)
    if given and wrong(turn):
        reaches = reader.tells(record, given["text"], turn["text"])
        if reaches is not None:
            yield "reaches", float(reaches)


def _told(record: Record, turn: Record, said: Record, reader: Reader) -> Iterator[Case]:
    """The provider's own words, before a guard put others in their place; the guard may know more
    than the rules.
    """
    tells = reader.tells(record, said.get("original") or said["text"], turn["text"])
    if said.get("leak"):
        tells = True
    if tells is not None:
        yield "tells", float(tells)


def _group_cases(episodes: Sequence[Record], num: int) -> Iterator[Case]:
    """Of a group of `num`: the chances that nothing tells its first answers apart."""
    first = [record["turns"][0] for record in episodes if graded(record["turns"][0])]
    if len(first) >= num:
        yield "dead_groups", chance_all_equal([turn["reward"] for turn in first], num)
        yield (
            "all_wrong_groups",
            chance_all_equal([k if right(t) else -1 for k, t in enumerate(first)], num),
        )
        yield (
            "all_right_groups",
            chance_all_equal([-1 if right(t) else k for k, t in enumerate(first)], num),
        )


def _lengths(records: Sequence[Record]) -> dict[str, Spread | None]:
    turns = [turn for record in records for turn in record["turns"]]
    words = [len(turn["feedback"]["text"].split()) for turn in turns if turn["feedback"]]
    prompts = [turn.get("prompt_tokens") for turn in turns if turn["parent"] is not None]
    return {
        "feedback_words": spread(words),
        "answer_tokens": spread([turn["num_tokens"] for turn in turns if turn.get("num_tokens")]),
        "later_prompt_tokens": spread([tokens for tokens in prompts if tokens is not None]),
    }


def spread(values: Sequence[float]) -> Spread | None:
    """Median, nearest-rank 90 % quantile and longest; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return Spread(
        len(ordered), float(np.median(ordered)), ordered[ceil(0.9 * len(ordered)) - 1], ordered[-1]
    )
