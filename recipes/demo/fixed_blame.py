"""The control of a teacher that reads feedback: each token of a wrong answer has the same blame."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.episode.rows import first_prompt_row
from rltf_verl.objectives.base import Objective, Settings
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Message, Row


class FixedBlame(Objective[Settings]):
    """Advantage −1 for wrong first answers, 0 for right ones (arXiv 2608.31046)."""

    has_answers = True

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """(first prompt, first answer) where it is wrong."""
        right = episode.turns[0].grade.correct
        return [] if right else [first_prompt_row(episode, 0, self.role)]

    def turn_weights(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S, M] −1."""
        return -torch.ones_like(episodes.rewards)
