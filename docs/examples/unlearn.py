"""An objective and a baseline of your own; `tests/objectives/test_own_on_cpu.py` runs both.

+rltf.objectives.unlearn=./unlearn.py:Unlearn +rltf.unlearn.weight=0.1
rltf.distill.baseline=./unlearn.py:best_first_answer
"""

from dataclasses import dataclass

import torch

from rltf_verl.episode.rows import first_prompt_row
from rltf_verl.objectives.base import Objective, Settings


@dataclass(frozen=True)
class UnlearnSettings(Settings):
    """The block `rltf.unlearn`: weight is there already."""

    most: float = 0.9
    """Probability above which a token is not pushed any harder."""


class Unlearn(Objective[UnlearnSettings]):
    """Unlikelihood, -log(1 - p), of wrong first answers that feedback put right."""

    Settings = UnlearnSettings

    async def rows(self, policy, messages, episode):
        first, last = episode.turns[0].grade, episode.turns[-1].grade
        put_right = last.correct and not first.correct
        return [first_prompt_row(episode, 0, self.role)] if put_right else []

    def loss(self, log_prob, ref_log_probs, weights, mask):
        p = torch.where(mask, log_prob, -1.0).exp().clamp(max=self.settings.most)
        return (-torch.log1p(-p) * torch.where(mask, weights, 0.0)).sum()


def best_first_answer(episodes):
    """[S, 1]: the best first reward of each group, in place of the mean."""
    first = episodes.rewards[:, 0]
    best = torch.full((episodes.num_groups,), -torch.inf)
    return best.scatter_reduce(0, episodes.group, first, "amax")[episodes.group].unsqueeze(1)
