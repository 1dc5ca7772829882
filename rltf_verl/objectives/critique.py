"""Self-critique RL: `rltf.critique`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rltf_verl.config import CritiqueConfig
from rltf_verl.episode.rows import whole_row
from rltf_verl.feedback import has_trait
from rltf_verl.objectives.attempt import TurnObjective
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Message, Role, Row


class Critique(TurnObjective):
    """A critique that the policy wrote has the advantage of the turn that it led to."""

    Settings = CritiqueConfig

    @property
    def has_effect(self) -> bool:
        """The policy writes the feedback."""
        return self.enabled and has_trait("self_written", self.config.feedback.block)

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """One row per critique that the policy itself wrote, credited with the turn that it led
        to.
        """
        rows = []
        for k, (before, turn) in enumerate(pairwise(episode.turns), 1):
            critique = before.feedback
            if critique is not None and critique.attempt is not None:
                sampled = critique.attempt
                rows.append(whole_row(Role.CRITIQUE, sampled, sampled.prompt_ids, k, turn.reward))
        return rows
