"""The gate of `rltf export --gate`: a policy leaves if its first answers rose and nothing fell.

First answers come from the run's own episode log: its validation before training and that at the
checkpoint's step. Public questions go to the model that the run started from and to the exported
weights. These must be the weights that gave the first answers that became right: they find them
likelier than the model that the run started from does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from rltf_verl.runlog.episodes import by_source, read_episodes
from rltf_verl.runlog.files import log_folder
from rltf_verl.runlog.turns import Record, graded, right
from rltf_verl.tools.export.checkpoint import BASE, Checkpoint, load_model
from rltf_verl.tools.export.public_questions import (
    NUM_ANSWERS,
    log_likelihoods,
    read_questions,
    right_answers,
)
from rltf_verl.tools.report.evaluation.bootstrap import problem_key
from rltf_verl.types import Message

LEAST = 30
"""Problems that a comparison of first answers needs, and most that the weights are held against."""
MOST_MISSING = 0.05
"""Largest share of a validation's verdicts that may be missing."""


class Change(NamedTuple):
    """It rose if the whole interval is above 0, and fell if it is below."""

    name: str
    low: float
    """Lower end of the interval: below 0 a loss is not excluded."""
    high: float
    line: str
    """All numbers, in points."""


class Gate:
    """Compares a run's validations, and then its weights.

    Args:
        checkpoint: of a run.
        margin: points; a loss of that size has to be excluded.
        say: takes a line of the page.

    Raises:
        ValueError: the validations cannot be compared, no first answers rose, some fell, or a loss
            of `margin` is not excluded; or there are no public questions.
    """

    def __init__(self, checkpoint: Checkpoint, margin: float, say: Callable[[str], None]) -> None:
        self._start = checkpoint.settings().get(BASE)
        self._margin, self._say = margin, say
        self._questions = read_questions()
        log = log_folder(checkpoint.folder.parent)
        steps = 0, checkpoint.step
        before, after = (by_source(read_episodes(log, step, ("val",))) for step in steps)
        if not before or not after:
            raise ValueError(
                f"{log}: --gate needs validations at steps {steps}; run with"
                " trainer.val_before_train=true and trainer.test_freq equal to trainer.save_freq"
            )
        changes = [
            _first_answers(source, before.get(source, []), after.get(source, []))
            for source in sorted(before.keys() | after.keys())
        ]
        self._take(changes)
        if not any(change.low > 0 for change in changes):
            raise ValueError("not exported: no first answers rose")
        self._last = _corrected(chain(*before.values()), chain(*after.values()))

    def check(self, exported: Path) -> None:
        """Ask the model that the run started from and the exported one.

        Raises:
            ValueError: a model cannot be read; a likelihood is not finite; other weights gave the
                first answers; or fewer public ones are right.
        """
        num = len(self._questions)
        self._say(f"asking two models {num} public questions on the CPU: minutes")
        tokenizer = AutoTokenizer.from_pretrained(exported, padding_side="right")
        before, unlikely = self._ask(self._start, f"{BASE}={self._start}", tokenizer)
        after, likely = self._ask(exported, "the exported weights", tokenizer)
        if likely:
            nats = f"{fmean(likely):.1f} nats after, {fmean(unlikely):.1f} before"
            self._say(f"{len(likely)} answers that became right: {nats}")
            if sum(likely) <= sum(unlikely):
                raise ValueError(
                    f"not exported: answers that became right have {nats}: other weights gave them;"
                    " the episode log or the checkpoint is of another run"
                )
        # n / k by chance, and √(n (k − 1)) / k its standard deviation
        guessed = sum(before) * NUM_ANSWERS <= num + 2 * sqrt(num * (NUM_ANSWERS - 1))
        name = "public questions" + " (guessed before, so they cannot fall)" * guessed
        # of an ability that was not there any loss is possible
        self._take([compare(name, list(zip(before, after, strict=True)), missing=guessed)])

    def _take(self, changes: Sequence[Change]) -> None:
        """Raises ValueError if one fell, or too large a loss is not excluded."""
        for change in changes:
            self._say(change.line)
        for change in changes:
            if change.high < 0:
                raise ValueError(f"not exported: {change.name} fell")
            if -100 * change.low >= self._margin:
                raise ValueError(
                    f"not exported: a loss of --margin {self._margin} is not excluded for"
                    f" {change.name}; validate on more problems, or accept a larger loss"
                )

    def _ask(self, path: Any, name: str, tokenizer: Any) -> tuple[list[bool], list[float]]:
        """Its verdicts on public questions, and log-likelihoods of first answers."""
        model = load_model(path, torch.bfloat16, name)
        likelihoods = []
        for messages, text in self._last:
            prompt = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
            likelihoods += log_likelihoods(model, tokenizer, prompt, [text])
        return right_answers(model, tokenizer, self._questions), likelihoods


def compare(name: str, pairs: Sequence[tuple[float, float]], missing: float = 0.0) -> Change:
    """The change of the mean share ± 2 √(Σ change² + 4) / n, and as much again as is missing.

    Where answers are right or wrong, Σ change² counts the problems that changed; the 4 keeps the
    interval honest where few did. Over draws of 30 to 1000 problems it covers the change of all
    such problems in 95.4 % of cases or more, in 96.8 % on either side. It calls a rise where an
    exact sign test of 2.5 % does, but for a few: 7 better and none worse, not 6.

    Args:
        name: of the set of problems.
        pairs: share of right answers of each problem before and after.
        missing: share of verdicts that are missing: each may have been right or wrong.
    """
    before, after = (fmean(shares) for shares in zip(*pairs, strict=True))
    half = 2 * sqrt(sum((b - a) ** 2 for a, b in pairs) + 4) / len(pairs) + missing
    change = after - before
    low, high = max(change - half, -1.0), min(change + half, 1.0)
    verdict = "rose" if low > 0 else "fell" if high < 0 else "no change beyond chance"
    line = (
        f"{name}: right {before:.3f} before, {after:.3f} after of {len(pairs)}; change"
        f" {100 * change:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]: {verdict}"
    )
    if low <= 0:
        line += f"; a loss of up to {-100 * low:.1f} points is not excluded"
    return Change(name, low, high, line)


def _first_answers(source: str, before: Sequence[Record], after: Sequence[Record]) -> Change:
    """The change of one data source.

    Raises:
        ValueError: a validation lacks verdicts, or there are too few problems.
    """
    name = f"first answers, {source or 'no source'}"
    # a problem's episodes in the validation that has more of them
    expected = (Counter(map(problem_key, before)) | Counter(map(problem_key, after))).total()
    sides, missing = [], 0.0
    for when, records in (("before training", before), ("at the checkpoint", after)):
        sides.append(_verdicts(records))
        lost = expected - sum(map(len, sides[-1].values()))
        missing += lost / expected
        if lost > MOST_MISSING * expected:
            raise ValueError(
                f"not exported: {name}: the validation {when} lacks {lost} of {expected} verdicts;"
                " both have to grade the same problems equally often"
            )
    both = sides[0].keys() & sides[1].keys()
    if len(both) < LEAST:
        raise ValueError(
            f"not exported: {name}: {len(both)} problems; --gate needs {LEAST} in data.val_files"
        )
    return compare(name, [(fmean(sides[0][key]), fmean(sides[1][key])) for key in both], missing)


def _verdicts(records: Sequence[Record]) -> Mapping[Hashable, Sequence[bool]]:
    """Problem -> verdicts on its first answers; no verdict where the grader failed."""
    verdicts = defaultdict[Hashable, list[bool]](list)
    for record in records:
        first = record["turns"][0]
        if graded(first) and first["grade"]["error"] is None:
            verdicts[problem_key(record)].append(right(first))
    return verdicts


def _corrected(
    before: Iterable[Record], after: Iterable[Record]
) -> list[tuple[list[Message], str]]:
    """(messages of the first prompt, first answer) of `LEAST` problems that became right; none that
    was given in steps.
    """
    failed = {problem_key(record) for record in before if not right(record["turns"][0])}
    by_problem = {
        key: (
            [*record.get("context", ()), {"role": "user", "content": record["question"]}],
            first["text"],
        )
        for record in after
        if (key := problem_key(record)) in failed
        and right(first := record["turns"][0])
        and "steps" not in first
    }
    return list(by_problem.values())[:LEAST]
