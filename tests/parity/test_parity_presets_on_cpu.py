"""`rltf/method=release/*` are the settings whose numbers `rltf parity` compares with the others."""

import pytest
from omegaconf import OmegaConf

from rltf_verl.config import RLTFConfig
from tests.support.configs import composed
from tools.parity.modes import release_config

SCRIPTS = {
    "gamma": 0.1,
    "rl_coef": 0.1,
    "logprob_threshold": -5.0,
    "clip_low": 0.8,
    "clip_high": 1.2,
    "sft_loss_weight": 0.1,
}
LOSSES = {"importance_sampling": "importance_sampling", "rltf_ppo": "ppo", "rltf_cispo": "cispo"}

# preset -> distillation mode and loss_fn of its script
PRESETS = {
    "grpo": ("none", "ppo"),
    "sd": ("rl_reweight_mask", "importance_sampling"),
    "sd_second_turn": ("rl_reweight_mask", "importance_sampling"),
    "sd_ppo": ("rl_mask", "ppo"),
    "sd_cispo": ("rl_mask", "cispo"),
    "sft": ("sft", "importance_sampling"),
    "fm": ("none", "importance_sampling"),
    "dual_critique": ("none", "importance_sampling"),
}


def release(name):
    return composed("rltf", f"rltf/method=release/{name}", "actor_rollout_ref.model.path=/nowhere")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_parity_computes(name):
    mode, loss = PRESETS[name]
    config = release(name)
    preset = RLTFConfig.from_mapping(OmegaConf.to_container(config.rltf, resolve=True))
    parity = release_config(mode, "second_turn_padded", SCRIPTS, loss)
    assert LOSSES[config.actor_rollout_ref.actor.policy_loss.loss_mode] == loss
    # how a ramp goes on after a resume is compared apart (rl_coef_schedule)
    assert preset.schedule.restart_on_resume == (mode == "rl_reweight_mask")
    assert preset.distill == parity.distill
    assert (preset.gamma, preset.attempt, preset.imitate) == (
        parity.gamma,
        parity.attempt,
        parity.imitate,
    )
    assert (preset.critique, preset.mentions) == (parity.critique, parity.mentions)
    assert preset.feedback_modeling.weight == (0.1 if name in ("fm", "dual_critique") else 0.0)
    assert preset.reward == parity.reward
