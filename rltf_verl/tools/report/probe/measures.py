"""Measures of a base model's episodes, for a run to come: shares with intervals, lengths.
Definitions: docs/measuring.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from rltf_verl.runlog.numbers import Cases, EpisodeTable
from rltf_verl.runlog.turns import (
    Record,
    answer,
    graded,
    group_of,
    pairs,
    right,
    says_nothing,
    wrong,
)
from rltf_verl.tools.report.evaluation.bootstrap import (
    Estimate,
    estimates,
    mean_over_problems,
    numbered,
    problem_key,
    share_of_cases,
)

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

LABELS = {
    "first_right": "first answers right",
    "second_right": "right after feedback",
    "improvement": "improvement of the second turn",
    "first_format": "first answers with an answer in them",
    "dead_groups": "groups of {sessions} with equal first rewards",
    "all_wrong_groups": "groups of {sessions} that all fail",
    "all_right_groups": "groups of {sessions} that all succeed",
    "wrong_changed": "wrong answers changed after feedback",
    "corrected": "wrong answers right after feedback",
    "spoiled": "right answers wrong after feedback",
    "tells": "feedback that holds the answer, as it was given",
    "reaches": "the same, as the policy read it",
    "guard_found": "leaks, of what the guard looked at",
    "withheld": "feedback that the guard kept back",
    "says_nothing": "feedback that holds no more than right or wrong",
    "failed": "feedback asked for that did not come",
    "mentions": "second answers that mention the feedback",
    "truncated": "answers cut off at {answer_tokens} tokens",
    "over_budget": "later prompts above {prompt_tokens} tokens",
    "shortened": "later prompts that were shortened",
}
"""Name of a measure -> what it is, over the fields of `TrainingRun`."""
PLACES = 6
"""Decimals to which rewards are equal, as the trainer's metric `rltf/group/dead_share` has it."""


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
    """Readers of a text from other layers."""

    tells: Callable[[Record, str, str], bool | None]
    """(episode, feedback, the wrong attempt) -> it holds the answer; None: not known."""
    mentions: Callable[[str], bool]
    """An answer mentions the feedback."""


@dataclass(frozen=True)
class Quantiles:
    """Lengths, or seconds."""

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
    """Groups with at least `TrainingRun.episodes` graded first answers."""
    shares: Mapping[str, Estimate]
    """By the names of `LABELS`."""
    lengths: Mapping[str, Quantiles | None] = field(default_factory=dict)
    """`feedback_words`, `answer_tokens`, `later_prompt_tokens`; None without counts."""


def measure(records: Sequence[Record], run: TrainingRun, reader: Reader) -> Measured:
    """Everything that can be counted in the episodes.

    Args:
        records: episodes of an episode log, at least one.
        run: sizes; groups are judged at its `episodes`.
        reader: looks into texts.
    """
    found = {name: list[tuple[int, float]]() for name in LABELS}
    groups = defaultdict[tuple[str, str], list[int]](list)
    for k, record in enumerate(records):
        groups[group_of(record)].append(k)
        for name, value in _cases(record, run, reader):
            found[name].append((k, value))
    for episodes in groups.values():
        # all episodes of a group are at one problem, so any of them has it
        for name, value in _group_cases([records[k] for k in episodes], run.sessions):
            found[name].append((episodes[0], value))
    cases = {name: _as_cases(pairs) for name, pairs in found.items()}
    cases |= _table_cases(EpisodeTable.of(records))
    problem = numbered(map(problem_key, records))
    ratios = {}
    for name, of in cases.items():
        ratio = mean_over_problems if name in OVER_PROBLEMS else share_of_cases
        ratios[name] = ratio(of, problem)
    return Measured(
        problems=len(set(problem)),
        sessions=len(records),
        groups=len(found["dead_groups"]),
        shares=estimates(ratios),
        lengths=_lengths(records),
    )


def _as_cases(found: Sequence[tuple[int, float]]) -> Cases:
    """Pairs of an episode and a value."""
    values = np.array([value for _, value in found], dtype=np.float64)
    return Cases(values, np.array([episode for episode, _ in found], dtype=np.int64))


def chance_all_equal(values: Sequence[float], num: int) -> float:
    """Probability that `num` of the values, drawn without return, are equal: Σ_v C(c_v, num) / C(m,
    num). Unbiased for a group of `num` episodes, whatever number m ≥ num was played.

    Example:
        >>> chance_all_equal([0, 0, 0, 1], 4), chance_all_equal([0, 0, 0, 1], 2)
        (0.0, 0.5)
    """
    counts = Counter(round(value, PLACES) for value in values)
    return sum(comb(count, num) for count in counts.values()) / comb(len(values), num)


def _cases(record: Record, run: TrainingRun, reader: Reader) -> Iterator[Case]:
    turns = record["turns"]
    yield from _answers(turns, run, reader)
    for before, after in pairs(turns):
        if wrong(before):
            yield "wrong_changed", float(answer(before) != answer(after))
    for turn in turns:
        yield from _feedback(record, turn, reader)
    # the log has how many prompts were shortened, not which: shares need no more
    for k in range(len(turns) - 1):
        yield "shortened", float(k < record.get("num_shortened", 0))


def _answers(turns: Sequence[Record], run: TrainingRun, reader: Reader) -> Iterator[Case]:
    for k, turn in enumerate(turns):
        yield "truncated", float(not turn["ended"])
        tokens = turn.get("prompt_tokens")
        # its next prompt was never sent, so its length is not in the log
        if turn["stop"] == "prompt_too_long":
            yield "over_budget", 1.0
        if k > 0:
            yield "mentions", float(reader.mentions(turn["text"]))
            if tokens is not None:
                yield "over_budget", float(tokens > run.prompt_tokens)


def _table_cases(table: EpisodeTable) -> dict[str, Cases]:
    """The counts that all tools share, under the probe's names."""
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
    """About one attempt: what the provider gave, and what of it reached the policy."""
    given, withheld = turn["feedback"], turn.get("withheld")
    stopped = turn["stop"] == "feedback_unavailable"
    if given or stopped:
        yield "failed", float(not withheld and (stopped or bool(given["fallback"])))
    for text in (given, withheld):
        if not text or text["fallback"]:
            continue
        yield "withheld", float(text is withheld)
        if text.get("leak") is not None:
            yield "guard_found", float(text["leak"] != "")
        if wrong(turn):
            yield "says_nothing", float(says_nothing(text["text"]))
            # The provider's own words, before a guard put others in their place. The guard may know
            # more than the rules.
            original = text.get("original") or text["text"]
            tells = True if text.get("leak") else reader.tells(record, original, turn["text"])
            if tells is not None:
                yield "tells", float(tells)
    if given and wrong(turn):
        reaches = reader.tells(record, given["text"], turn["text"])
        if reaches is not None:
            yield "reaches", float(reaches)


def _group_cases(episodes: Sequence[Record], num: int) -> Iterator[Case]:
    """The chances that all first answers of a group of `num` are alike."""
    # an attempt without a grade has no reward to compare
    first = [record["turns"][0] for record in episodes if graded(record["turns"][0])]
    if len(first) >= num:
        # an answer that does not count differs from all others
        wrongs = [k if right(turn) else -1 for k, turn in enumerate(first)]
        rights = [-1 if right(turn) else k for k, turn in enumerate(first)]
        yield "dead_groups", chance_all_equal([turn["reward"] for turn in first], num)
        yield "all_wrong_groups", chance_all_equal(wrongs, num)
        yield "all_right_groups", chance_all_equal(rights, num)


def _lengths(records: Sequence[Record]) -> dict[str, Quantiles | None]:
    turns = [turn for record in records for turn in record["turns"]]
    words = [len(turn["feedback"]["text"].split()) for turn in turns if turn["feedback"]]
    prompts = [t.get("prompt_tokens") for record in records for t in record["turns"][1:]]
    return {
        "feedback_words": quantiles(words),
        "answer_tokens": quantiles([turn.get("num_tokens") or None for turn in turns]),
        "later_prompt_tokens": quantiles(prompts),
    }


def quantiles(values: Sequence[float | None]) -> Quantiles | None:
    """Median, nearest-rank 90 % quantile and longest of the values that are known; None without
    any.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    # the nearest rank is one of the values
    p90 = float(np.quantile(known, 0.9, method="inverted_cdf"))
    return Quantiles(len(known), float(np.median(known)), p90, max(known))
