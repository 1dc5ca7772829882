"""The environment of recipes/corrections: held-out first questions are graded by the company's
verifier. Training accepts as `Corrections` does.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from sys import path

path.append(str(Path(__file__).resolve().parent))

from chats import Company, assistant_answer, said_correction
from house_style import HouseStyle

from rltf_verl.envs.base import Splits
from rltf_verl.envs.corrections import Corrections
from rltf_verl.types import Grade, Problem


class HouseCorrections(Corrections):
    """The environment `corrections` with a grade for its own held-out questions."""

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Held-out questions of company `seed`, with an answer and its right correction.

        Raises:
            ValueError: training problems are asked for; those are of a file of conversations.
        """
        if num_train:
            super().build(seed, num_train, num_test)
        asked = Company(seed).problems(0, num_test).test
        return Splits((), tuple(_with_record(one) for one in asked))

    def prompt(self, problem: Problem) -> str:
        """The first question."""
        return str(problem.data["question"])

    def grade(self, problem: Problem, text: str) -> Grade:
        """Exact on held-out questions. Raises GradeUnavailable on the others."""
        if problem.reference:
            return HouseStyle().grade(problem, text)
        return super().grade(problem, text)


def _with_record(problem: Problem) -> Problem:
    rng = random.Random(f"held out {problem.data['question']}")
    record = {
        "id": f"held-out-{problem.index}",
        "attempt": assistant_answer(rng, problem),
        "correction": said_correction(rng, problem, problem.data["rule"]),
    }
    return replace(problem, env=HouseCorrections.name, data={**problem.data, **record})
