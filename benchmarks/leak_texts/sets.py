"""Every set of labelled texts, by the name that its line of the table has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.leak_texts import (
    binary_matrix,
    code,
    knights_knaves,
    math_problems,
    math_wordings,
    path_wordings,
    role_letters,
    role_wordings,
    shortest_path,
)
from benchmarks.leak_texts.common import Labelled, draw_texts
from rltf_verl.envs.base import Env
from rltf_verl.envs.binary_matrix import BinaryMatrix
from rltf_verl.envs.code import Code
from rltf_verl.envs.knights_knaves import KnightsKnaves
from rltf_verl.envs.math import Math
from rltf_verl.envs.shortest_path import ShortestPath

Draw = Callable[[int, Mapping[str, int]], Iterator[Labelled]]
"""Texts from a seed and a number of each kind."""


@dataclass(frozen=True)
class TextSet:
    """Texts on one wording of an environment."""

    name: str
    env: Env
    num: Mapping[str, int]
    """Texts of each kind."""
    draw: Draw
    held_out: bool = False
    """The rules were not mended by these wordings."""

    def texts(self, seed: int = 0, num: Mapping[str, int] | None = None) -> list[Labelled]:
        return list(self.draw(seed, num or self.num))


def all_sets() -> list[TextSet]:
    """In the order of the table; `code` only where a sandbox works."""
    return [*_matrices(), *_roles(), *_paths(), *_math(), *_code()]


def _matrices() -> Iterator[TextSet]:
    for style in ("official", "compact"):

        def draw(seed: int, num: Mapping[str, int], style: str = style) -> Iterator[Labelled]:
            return binary_matrix.labelled_texts(style, seed, dict(num))

        yield TextSet(f"binary_matrix, {style}", BinaryMatrix(style=style), binary_matrix.NUM, draw)


def _halves(
    name: str,
    env: Env,
    num: Mapping[str, int],
    cases: Callable[[int], Iterator[Any]],
    known: Any,
    held_out: Any,
) -> Iterator[TextSet]:
    for half, wordings in (("known", known), ("held out", held_out)):

        def draw(seed: int, num: Mapping[str, int], wordings: Any = wordings) -> Iterator[Labelled]:
            return draw_texts(wordings, cases(seed), num)

        yield TextSet(f"{name}, {half}", env, num, draw, wordings is held_out)


def _roles() -> Iterator[TextSet]:
    for style, module in (("official", role_wordings), ("compact", role_letters)):
        yield from _halves(
            f"knights_knaves, {style}",
            KnightsKnaves(style=style),
            knights_knaves.NUM,
            lambda seed, style=style: knights_knaves.cases(style, seed),
            module.KNOWN,
            module.HELD_OUT,
        )


def _paths() -> Iterator[TextSet]:
    for style in ("official", "compact"):
        yield from _halves(
            f"shortest_path, {style}",
            ShortestPath(style=style),
            shortest_path.NUM,
            lambda seed, style=style: shortest_path.cases(style, seed),
            path_wordings.KNOWN,
            path_wordings.HELD_OUT,
        )


def _math() -> Iterator[TextSet]:
    yield from _halves(
        "math",
        Math(),
        math_wordings.NUM,
        math_problems.cases,
        math_wordings.KNOWN,
        math_wordings.HELD_OUT,
    )


def _code() -> Iterator[TextSet]:
    env = Code(time_s=2, total_s=20)
    if env.trouble() is None:
        yield TextSet("code", env, code.NUM, code.labelled_texts)
