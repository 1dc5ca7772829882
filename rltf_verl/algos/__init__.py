"""The equations, in plain torch. Computations of a step, in order:

`EpisodeBatch` holds rewards and turns of a batch of episodes, `RowBatch` the rows that they train.
`discounted_returns` and `turn_advantages` are multi-turn GRPO; `distill_advantages` and
`floor_mask` RLTF-SD; the token losses, `distill_loss` and `supervised_loss` (RLTF-FM, SFT,
self-critique) make numbers of log-probs; `logit_divergence`, `sampled_token` and `GATES` are
teachers; `scheduled_weight` weighs objectives. Each docstring has the formula
and where it comes from.
"""

from rltf_verl.algos.advantages import first_turn_mean, turn_advantages
from rltf_verl.algos.distill import distill_advantages, floor_mask, soft_floor
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.gate import GATES, Evidence
from rltf_verl.algos.logit_distill import entropy_weight, logit_divergence, sampled_token
from rltf_verl.algos.losses import TOKEN_LOSSES, cross_entropy
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.algos.schedule import scheduled_weight
from rltf_verl.algos.targets import RowBatch, RowTargets

__all__ = [
    "GATES",
    "TOKEN_LOSSES",
    "EpisodeBatch",
    "Evidence",
    "RowBatch",
    "RowTargets",
    "cross_entropy",
    "discounted_returns",
    "distill_advantages",
    "distill_loss",
    "entropy_weight",
    "first_turn_mean",
    "floor_mask",
    "logit_divergence",
    "sampled_token",
    "scheduled_weight",
    "soft_floor",
    "supervised_loss",
    "turn_advantages",
]
