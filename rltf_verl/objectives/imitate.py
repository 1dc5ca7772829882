"""Supervised fine-tuning of the first prompt on right answers: `rltf.imitate`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.config import ImitateConfig
from rltf_verl.episode.rows import first_prompt_row
from rltf_verl.objectives.base import Objective
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Message, Role, Row


class Imitate(Objective[ImitateConfig]):
    """Cross-entropy on right answers, as if they had been given to the first prompt."""

    Settings, has_answers = ImitateConfig, True

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """(x_0, y_K) if the last answer is correct; of one turn only with `source: all`."""
        last = len(episode.turns) - 1
        wanted = last > 0 or self.settings.source == "all"
        if not (wanted and episode.turns[last].grade.correct):
            return []
        return [first_prompt_row(episode, last, Role.IMITATE)]

    def turn_weights(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S, M] 1[correct]."""
        return episodes.correct.to(episodes.rewards.dtype)
