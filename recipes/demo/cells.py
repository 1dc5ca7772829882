"""Matrices whose grade is the share of right cells, and a guide who corrects one row at a time."""

from __future__ import annotations

from dataclasses import replace

from rltf_verl.envs.base import FeedbackLevel
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.types import Grade, Problem

N = 3


class Cells(BinaryMatrix):
    """Right is the whole matrix; a part of it has that part of the reward."""

    name = "cells"

    def __init__(self) -> None:
        super().__init__(style="compact", n_min=N, n_max=N)

    def grade(self, problem: Problem, text: str) -> Grade:
        """The share of right cells; 0 without a readable matrix."""
        grade, cells = super().grade(problem, text), self._read(problem, text) or []
        wanted = [cell for row in problem.data["solution"] for cell in row]
        given = [cell for row in cells for cell in row]
        right = sum(a == b for a, b in zip(given, wanted, strict=False))
        return replace(grade, score=right / len(wanted) if len(given) == len(wanted) else 0.0)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """The first wrong row as it should be; the guide lets the other rows pass."""
        solution, given = problem.data["solution"], self._read(problem, text)
        target = list(given) if given and [len(row) for row in given] == [N] * N else [[0] * N] * N
        wrong = next((i for i in range(N) if target[i] != solution[i]), None)
        if wrong is not None:
            target[wrong] = solution[wrong]
        pretended = replace(problem, data={**problem.data, "solution": target})
        return super().explain(pretended, text, grade, level)
