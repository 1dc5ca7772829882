"""The gate of `rltf export --gate`: a policy leaves if its first answers rose and nothing fell.

First answers come from the run's own episode log: its validation before training and that at the
checkpoint's step. Public questions are asked here, of the model that the run started from and of
the exported weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import comb
from pathlib import Path
from statistics import fmean

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.files import log_folder
from rltf_verl.runlog.turns import graded, right
from rltf_verl.texts import one_line
from rltf_verl.tools.export.card import BASE
from rltf_verl.tools.export.checkpoint import Checkpoint
from rltf_verl.tools.export.public_questions import MultipleChoice, right_answers
from rltf_verl.tools.report.evaluation.bootstrap import problem_key

MOST_CHANCE = 0.025
VERDICTS = {1: "rose", 0: "no change beyond chance", -1: "fell"}


def compare(name: str, pairs: Sequence[tuple[float, float]]) -> tuple[int, str]:
    """Right answers to the same problems before and after, by the exact sign test.

    Of the problems that changed, some are better and some worse. If either were as likely, the
    larger group would be so large or larger with a probability that is to be 2.5 % at most: about
    two standard errors of the difference. Six better and none worse are enough, five are not.

    Args:
        name: of the set of problems.
        pairs: share of right answers of each problem before and after.

    Returns:
        1 if they rose, −1 if they fell, 0 if chance may have done it; and a line with the numbers.

    >>> compare("set", [(0, 1)] * 6 + [(1, 1)] * 2)
    (1, 'set: right 0.250 before, 1.000 after; 6 better, 0 worse of 8: rose')
    >>> compare("set", [(0, 1)] * 5)[0], compare("set", [(1, 0.5)] * 6)[0]
    (0, -1)
    """
    better = sum(after > before for before, after in pairs)
    worse = sum(after < before for before, after in pairs)
    changed = better + worse
    as_large = range(max(better, worse), changed + 1)
    chance = sum(comb(changed, num) for num in as_large) / 2**changed
    direction = 0 if chance > MOST_CHANCE else 1 if better > worse else -1
    before, after = (fmean(shares) for shares in zip(*pairs, strict=True))
    return direction, (
        f"{name}: right {before:.3f} before, {after:.3f} after; {better} better, {worse} worse of"
        f" {len(pairs)}: {VERDICTS[direction]}"
    )


def require_rise(checkpoint: Checkpoint) -> str:
    """Compare the first answers of the run's validations, each data source for itself.

    Returns:
        A line for each data source.

    Raises:
        ValueError: a validation is missing; none rose; or one fell.
    """
    log = log_folder(checkpoint.folder.parent)
    before = _first_answers(log, 0, "trainer.val_before_train=true")
    after = _first_answers(log, checkpoint.step, "trainer.test_freq equal to trainer.save_freq")
    both = before.keys() & after.keys()
    changes = [
        compare(
            f"first answers, {source}, steps 0 and {checkpoint.step}",
            [(before[key], after[key]) for key in both if key[0] == source],
        )
        for source in sorted({source for source, _ in both})
    ]
    directions = [direction for direction, _ in changes]
    lines = "\n".join(line for _, line in changes)
    if -1 in directions or 1 not in directions:
        without = f"{log} has no graded first answer of both; give rltf.env a grade"
        raise ValueError(f"not exported: {lines or without}")
    return lines


def _first_answers(log: Path, step: int, fix: str) -> dict[tuple[str, Hashable], float]:
    """(data source, problem) -> share of right ones among its graded first answers."""
    records = read_episodes(log, step, ("val",))
    if not records:
        raise ValueError(f"{log}: no validation at step {step} for --gate; run with {fix}")
    verdicts = defaultdict[tuple[str, Hashable], list[bool]](list)
    for record in records:
        first = record["turns"][0]
        if graded(first):
            verdicts[record.get("source", ""), problem_key(record)].append(right(first))
    return {key: fmean(values) for key, values in verdicts.items()}


def require_kept(
    checkpoint: Checkpoint, exported: Path, questions: Sequence[MultipleChoice]
) -> str:
    """Ask the model that the run started from and the exported one.

    Returns:
        A line with the numbers.

    Raises:
        ValueError: fewer answers are right, or the model that the run started from cannot be read.
    """
    start = str(checkpoint.settings().get(BASE))
    try:
        answers = [right_answers(model, questions) for model in (start, exported)]
    except OSError as error:
        raise ValueError(
            f"{BASE}={start}: --gate cannot read the model that the run started from"
            f" ({one_line(str(error), 160)}); start in the run's working folder"
        ) from None
    direction, line = compare("public questions", list(zip(*answers, strict=True)))
    if direction < 0:
        raise ValueError(f"not exported: {line}")
    return line
