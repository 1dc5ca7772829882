"""The released code's modes as our own settings; the presets `rltf/method/release/*` say the
same.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.config import DistillConfig, ImitateConfig, RLTFConfig
from rltf_verl.config.objectives import Baseline, Loss, Reference
from tools.parity.report import Excuse, Json

LossName = Literal["importance_sampling", "ppo", "cispo"]
LOSSES: tuple[str, ...] = get_args(LossName)

MODES = ("none", "sft", "rl_reweight", "rl_reweight_mask", "rl_mask")

BASELINES: dict[str, tuple[Baseline, ...]] = {
    "": ("first_turn",),  # modes without distillation: not read
    "first_turn": ("first_turn",),
    "second_turn": ("second_turn_padded", "second_turn"),
}
"""Baseline as the file names it -> ours that are held against it: as it is, and with its defect
fixed.
"""

PADDING_DEFECT = Excuse(
    "fixed defect: with horizon > 2 the release reads the second-turn advantage of an episode that"
    " stopped before its group's longest from the zero padding; here"
    " (rltf.distill.baseline=second_turn) it is the advantage of the episode's own last turn."
    " second_turn_padded has the release's numbers",
    lambda ours, theirs: theirs == 0.0,
)


def release_config(mode: str, baseline: Baseline, settings: Json, loss: LossName) -> RLTFConfig:
    """What trains as the release does in a mode.

    Args:
        mode: `distillation_mode`.
        baseline: of the distillation rows.
        settings: `gamma`, `rl_coef`, `logprob_threshold`, `clip_low`, `clip_high`,
            `sft_loss_weight`.
        loss: `loss_fn`, one for all rows there.
    """
    return RLTFConfig(
        gamma=settings["gamma"],
        distill=_distill(mode, baseline, settings, loss),
        imitate=ImitateConfig(
            weight=settings["sft_loss_weight"] if mode == "sft" else 0.0, source="revised"
        ),
    )


def _distill(mode: str, baseline: Baseline, settings: Json, loss: LossName) -> DistillConfig:
    """`rl_coef` and the floor count in one mode only; `rl_mask` keeps the log-probs of the prompt
    with the feedback.
    """
    if mode in ("none", "sft"):
        return DistillConfig()
    masked = mode == "rl_reweight_mask"
    reference: Reference = "sampler" if mode == "rl_mask" else "old"
    return DistillConfig(
        weight=settings["rl_coef"] if masked else 1.0,
        baseline=baseline,
        reference=reference,
        loss=Loss(loss, clip_low=settings["clip_low"], clip_high=settings["clip_high"]),
        log_prob_floor=settings["logprob_threshold"] if masked else None,
    )


def num_turns(episodes: EpisodeBatch) -> torch.Tensor:
    """[S] turns that were played."""
    return episodes.valid.long().sum(dim=1)


def padding_excuse(episodes: EpisodeBatch, episode: int, baseline: str) -> Excuse | None:
    """The fixed defect, if it applies to this episode."""
    turns = num_turns(episodes)
    longest = int(turns[episodes.group == episodes.group[episode]].max())
    return PADDING_DEFECT if baseline == "second_turn" and int(turns[episode]) < longest else None
