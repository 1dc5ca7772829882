"""The baseline that needs no words: supervised training on the reference queries."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.episode.rows import whole_row
from rltf_verl.objectives.base import Objective, Settings
from rltf_verl.policy import Policy
from rltf_verl.types import Attempt, Episode, Message, Row


class GoldQueries(Objective[Settings]):
    """Cross-entropy on a problem's reference query, as if the policy had answered with it."""

    has_answers = True

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """(first prompt, reference query in a code block)."""
        prompt, text = episode.turns[0].attempt.prompt_ids, episode.problem.reference
        answer = f"```sql\n{text};\n```"
        ids = await policy.encode_answer(answer)
        gold = Attempt(prompt, ids, (0.0,) * len(ids), answer, ended=True)
        return [whole_row(self.role, gold, prompt, 0, 0.0)]
