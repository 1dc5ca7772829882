"""The baseline that needs no words: supervised training on right answers of another hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rltf_verl.episode.rows import whole_row
from rltf_verl.objectives import base
from rltf_verl.policy import Policy
from rltf_verl.types import Attempt, Episode, Message, Row


@dataclass(frozen=True)
class Settings(base.Settings):
    """`rltf.gold`."""

    lines: tuple[str, ...] = ("{}",)
    """Of an answer; `{}` stands for the reference."""


class GoldAnswers(base.Objective[Settings]):
    """Cross-entropy on a problem's reference, as if the policy had answered with it."""

    Settings, has_answers = Settings, True

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """(first prompt, reference)."""
        prompt = episode.turns[0].attempt.prompt_ids
        answer = "\n".join(self.settings.lines).format(episode.problem.reference)
        ids = await policy.encode_answer(answer)
        gold = Attempt(prompt, ids, (0.0,) * len(ids), answer, ended=True)
        return [whole_row(self.role, gold, prompt, 0, 0.0)]
