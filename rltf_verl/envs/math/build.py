"""Problems of `math` from their sources: training and test split, kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from rltf_verl.envs.base import Splits, require_counts
from rltf_verl.envs.math.sources import (
    SOURCES,
    TEST_SETS,
    Item,
    find_source,
    normalised,
    read_items,
)
from rltf_verl.registry import require_choice
from rltf_verl.texts import counted
from rltf_verl.types import Problem


@dataclass(frozen=True, slots=True)
class MathData:
    """Choice of problems; see `math.Math` for the fields."""

    source: str
    path: str | None
    test_sets: Sequence[str] | None
    test_paths: Mapping[str, str]
    fields: tuple[str, str]
    keep_apart: bool
    """No test problem in the training split."""

    def __post_init__(self) -> None:
        source, file = find_source("rltf.env.source", self.source, SOURCES, self.fields)
        if file is not None and self.path is not None:
            raise ValueError(
                f"rltf.env.path={self.path!r} is for a named source, and rltf.env.source is a file"
                " itself"
            )
        for name in self._test_names(source.test_sets):
            find_source("rltf.env.test_sets", name, TEST_SETS, self.fields)
        names = [
            *self._test_names(source.test_sets),
            *(["math500"] if self.source == "math" else []),
        ]
        for name in self.test_paths:
            require_choice("rltf.env.test_paths", name, names)

    def build(self, env: str, seed: int, num_train: int, num_test: int) -> Splits:
        """See `math.Math.build`."""
        require_counts(num_train, num_test)
        source, file = find_source("rltf.env.source", self.source, SOURCES, self.fields)
        subset = Path(self.source).stem if file is not None else self.source
        train = read_items("rltf.env.source", self.source, source, file or self.path, seed)
        names = self._test_names(source.test_sets)
        test = list(self._test_items(names, num_test))
        # `train` is one iterator: what the test split takes is gone from training.
        if file is not None and self.test_sets is None:
            test = [(subset, item) for item in islice(train, num_test)]
        same = normalised if self.keep_apart else str
        taken = {same(item.question) for _, item in test} if self.keep_apart else set()
        if self.source == "math":  # its training set is defined as what is not in MATH-500
            taken |= {same(item.question) for _, item in self._test_items(["math500"], None)}
        kept, dropped = _keep_apart(train, taken, num_train, same)
        problems = [_problem(env, i, subset, item) for i, item in enumerate(kept)]
        tests = [_problem(env, i, name, item) for i, (name, item) in enumerate(test)]
        splits = Splits(tuple(problems), tuple(tests))
        if not dropped:
            return splits
        left_out = counted(dropped, "training problem")
        return replace(splits, notes=(f"left out because the test sets have them: {left_out}",))

    def _test_names(self, default: Sequence[str]) -> tuple[str, ...]:
        return tuple(default if self.test_sets is None else self.test_sets)

    def _test_items(self, names: Sequence[str], num: int | None) -> Iterator[tuple[str, Item]]:
        if num == 0:
            return
        for name in names:
            source, file = find_source("rltf.env.test_sets", name, TEST_SETS, self.fields)
            items = read_items(
                "rltf.env.test_sets", name, source, file or self.test_paths.get(name), None
            )
            for item in islice(items, num):
                yield from [(Path(name).stem if file is not None else name, item)] * source.samples


def _keep_apart(
    items: Iterator[Item], taken: set[str], num: int, same: Callable[[str], str]
) -> tuple[list[Item], int]:
    """The first `num` items that are not taken, and how many were left out on the way."""
    kept: list[Item] = []
    dropped = 0
    while len(kept) < num and (item := next(items, None)) is not None:
        if same(item.question) in taken:
            dropped += 1
        else:
            kept.append(item)
    return kept, dropped


def _problem(env: str, index: int, subset: str, item: Item) -> Problem:
    data = {"question": item.question, "subset": subset}
    if item.solution:
        data["solution"] = item.solution
    return Problem(env, index, data, item.answer)
