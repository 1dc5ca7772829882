"""How good a policy is at first and after k rounds of feedback, from the validation episodes of an
episode log.

Ungraded turns (`stop` is `ungraded`) count in nothing, nor does what would stand on
them; they are reported. Definitions with their denominators: docs/measuring.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from rltf_verl.runlog.numbers import EpisodeTable
from rltf_verl.runlog.turns import Record, grader_trouble
from rltf_verl.tools.report.evaluation.bootstrap import Estimate, estimates
from rltf_verl.tools.report.evaluation.table import (
    OF_ROUNDS,
    OF_TURNS,
    pass_ratios,
    problem_numbers,
    round_ratios,
    turn_ratios,
)
from rltf_verl.types import END_REASONS


@dataclass(frozen=True)
class TurnResult:
    """After `turn` answers (from 1). Means over problems."""

    turn: int
    standing: Estimate
    """Accuracy of the last answer so far: an episode that ended earlier keeps its last one."""
    solved: Estimate
    """Some answer so far was right."""
    improvement: Estimate
    """`standing` minus that of the first answer, in the same episodes."""
    format: Estimate
    """Share of this turn's answers that could be extracted and that the policy ended itself."""
    played: int
    """Episodes that gave and graded an answer in this turn."""


@dataclass(frozen=True)
class RoundResult:
    """What feedback did: pairs of a graded answer and the graded answer after it. Shares of
    pairs.
    """

    round: int | None
    """From 1; None: all together."""
    plasticity: Estimate
    """Pairs with another second answer."""
    corrected: Estimate
    """Share of the pairs with a wrong first answer whose second is right."""
    spoiled: Estimate
    """Share of the pairs with a right first answer whose second is wrong."""
    pairs: int


@dataclass(frozen=True)
class Results:
    """The numbers of one set of episodes."""

    problems: int
    sessions: int
    samples: tuple[int, int]
    """Fewest and most episodes of a problem."""
    ungraded: int
    """Answers without a verdict, because the grader was out of reach."""
    grader_trouble: str | None
    """One line on answers whose grader failed, which count as wrong."""
    truncated: int
    """Answers cut off at the token limit."""
    stops: dict[str, int]
    """Why episodes ended."""
    ends: dict[str, tuple[int, float]]
    """Why trajectories ended -> how many, and their mean number of steps."""
    turns: tuple[TurnResult, ...]
    rounds: tuple[RoundResult, ...]
    """All together first, then one by one; empty if no answer followed another."""
    pass_at: dict[int, Estimate]
    """k -> some of k first answers is right, over problems that have k graded ones; pass@1 is
    mean@n.
    """


def evaluate(records: Sequence[Record], seed: int = 0) -> Results:
    """All numbers of some episodes.

    Args:
        records: of an episode log (`runlog.episodes.read_episodes`), episodes of one policy that
            play one line of turns.
        seed: of the resamples.

    Raises:
        ValueError: no episodes, or one that branches.
    """
    if not records:
        raise ValueError("no episodes to evaluate")
    for record in records:
        if any(turn["parent"] not in (None, k - 1) for k, turn in enumerate(record["turns"])):
            raise ValueError(
                f"episode {record['session_id']} of problem {record['index']} branches; choose"
                " validation"
            )
    table, problem = EpisodeTable.of(records), problem_numbers(records)
    ratios = turn_ratios(table, problem) | round_ratios(table, problem)
    ratios |= pass_ratios(table.answers(0)["acc"], problem)
    estimated = dict(zip(ratios, estimates(list(ratios.values()), seed), strict=True))
    per_problem = np.bincount(problem)
    turns = (
        TurnResult(
            turn=k + 1,
            played=len(table.answers(k)["acc"].values),
            **{name: estimated[name, k] for name in OF_TURNS},
        )
        for k in range(table.num_turns)
    )
    # all together, then one by one
    rounds = (
        RoundResult(
            round=k or None,
            pairs=len(table.revisions(k or None)["gain"].values),
            **{name: estimated[name, k] for name in OF_ROUNDS},
        )
        for k in range(table.num_turns)
    )
    return Results(
        problems=len(per_problem),
        sessions=len(records),
        samples=(int(per_problem.min()), int(per_problem.max())),
        ungraded=sum(turn["stop"] == "ungraded" for record in records for turn in record["turns"]),
        grader_trouble=grader_trouble(records)[0],
        truncated=sum(not turn["ended"] for record in records for turn in record["turns"]),
        stops=dict(sorted(Counter(str(record["turns"][-1]["stop"]) for record in records).items())),
        ends=_ends(records),
        turns=tuple(turns),
        rounds=tuple(each for each in rounds if each.pairs),
        pass_at={int(key[1]): value for key, value in estimated.items() if key[0] == "pass"},
    )


def _ends(records: Sequence[Record]) -> dict[str, tuple[int, float]]:
    steps = defaultdict[str, list[int]](list)
    for turn in (turn for record in records for turn in record["turns"] if "end" in turn):
        steps[turn["end"]].append(len(turn["steps"]))
    return {end: (len(steps[end]), fmean(steps[end])) for end in END_REASONS if end in steps}
