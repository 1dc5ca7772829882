"""Quality of a policy at first and after k rounds of feedback, from the validation episodes of an
episode log.

Ungraded turns (`stop` is `ungraded`) count in nothing, nor do turns that would follow them; they
are reported. Definitions with their denominators: docs/measuring.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from rltf_verl.runlog.numbers import Cases, EpisodeTable, Integers
from rltf_verl.runlog.turns import Record, graded, grader_trouble
from rltf_verl.tools.report.evaluation.bootstrap import (
    Estimate,
    Ratio,
    estimates,
    mean_over_problems,
    numbered,
    problem_key,
    share_of_cases,
)
from rltf_verl.tools.report.stats import cases_by_name
from rltf_verl.types import END_REASONS

OF_TURNS = ("acc", "standing", "solved", "improvement", "format")
"""Means over problems."""
OF_ROUNDS = ("plasticity", "corrected", "spoiled")
"""Shares of the pairs of a graded answer and the graded answer after it."""


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
    num_turns: int
    numbers: Mapping[str, Estimate]
    """`turn_1/standing` (`OF_TURNS`), `turn_2/revisions/corrected`, and `revisions/corrected` of
    all rounds together (`OF_ROUNDS`): docs/metrics.md; `turn_1/` with a name of `own`.
    """
    own: tuple[str, ...]
    """The environment's own numbers (`Grade.numbers`)."""
    pass_at: Mapping[int, Estimate]
    """k -> some of k first answers is right, over problems that have k graded ones; pass@1 is
    mean@n.
    """


def evaluate(records: Sequence[Record]) -> Results:
    """All numbers of some episodes.

    Args:
        records: of an episode log (`runlog.episodes.read_episodes`), at least one, of one policy;
            validations and evaluations play one line of turns.
    """
    table, problem = EpisodeTable.of(records), numbered(map(problem_key, records))
    per_problem = np.bincount(problem)
    answers = [turn for record in records for turn in record["turns"]]
    stops = Counter(str(record["turns"][-1]["stop"]) for record in records)
    # Counts first, then numbers with an interval.
    return Results(
        problems=len(per_problem),
        sessions=len(records),
        samples=(int(per_problem.min()), int(per_problem.max())),
        ungraded=sum(not graded(turn) for turn in answers),
        grader_trouble=grader_trouble(records)[0],
        truncated=sum(not turn["ended"] for turn in answers),
        stops=dict(sorted(stops.items())),
        ends=_ends(answers),
        num_turns=table.num_turns,
        numbers=estimates(_ratios(table, problem)),
        own=tuple(table.own),
        pass_at=estimates(_pass_ratios(table.answers(0)["acc"], problem)),
    )


def _ratios(table: EpisodeTable, problem: Integers) -> dict[str, Ratio]:
    ratios: dict[str, Ratio] = {}
    for name, cases in cases_by_name(table).items():
        *block, last = name.split("/")
        # `turn_2/acc` is a turn's; `turn_2/revisions/corrected` is a round's
        if last in OF_TURNS and len(block) == 1:
            ratios[name] = mean_over_problems(cases, problem)
        elif last in OF_ROUNDS or last in table.own:
            ratios[name] = share_of_cases(cases, problem)
    return ratios


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 − C(n−c, k) / C(n, k): unbiased for 1 − (1 − p)^k (Chen et al. 2021, arXiv 2107.03374).

    Args:
        n: samples, at least k.
        c: correct ones.
        k: samples that one may choose from.
    """
    # the quotient as a product, as in the paper: binomials of many samples overflow
    return 1.0 if n - c < k else float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def _pass_ratios(first: Cases, problem: Integers) -> dict[int, Ratio]:
    """k -> the ratio of pass@k, over the problems with k graded first answers; k are the powers of
    2 and the most samples of a problem.

    Args:
        first: verdicts of the first answers.
        problem: [S].
    """
    counts = share_of_cases(first, problem)
    most = int(counts.under.max())
    ratios: dict[int, Ratio] = {}
    # powers of 2 as papers print them, and all samples of the problem that has most; no k where no
    # problem has a graded answer
    for k in sorted({2**i for i in range(most.bit_length())} | ({most} - {0})):
        enough = counts.under >= k
        values = np.zeros(len(enough))
        for i in np.flatnonzero(enough):
            values[i] = pass_at_k(int(counts.under[i]), int(counts.over[i]), k)
        ratios[k] = Ratio(values, enough.astype(np.float64))
    return ratios


def _ends(answers: Sequence[Record]) -> dict[str, tuple[int, float]]:
    steps = defaultdict[str, list[int]](list)
    for turn in answers:
        if "end" in turn:
            steps[turn["end"]].append(len(turn["steps"]))
    return {end: (len(steps[end]), fmean(steps[end])) for end in END_REASONS if end in steps}
