"""Where the sampler's log-probs may stand for a pass of the actor."""

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.training.step import may_leave_unscored, may_reuse_log_probs
from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import Method
from tests.support.configs import composed

CPU = "rltf/hardware=cpu"
ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


@pytest.mark.parametrize(
    ("preset", "overrides", "reused"),
    [
        ("rltf_grpo_single", [CPU], True),
        ("rltf_grpo", [CPU], True),
        ("rltf_sd", [CPU], False),  # a distilled answer was sampled under another prompt
        ("rltf_fm", [CPU], False),
        ("rltf_grpo_single", [], False),
        ("rltf_grpo_single", ["rltf/hardware=cpu_bf16"], False),
        ("rltf_grpo_single", ["rltf/hardware=cpu_vllm"], False),
        ("rltf_grpo_single", [CPU, "rltf.updates_per_batch=2"], False),
        ("rltf_grpo_single", [CPU, f"{ACTOR}.ppo_epochs=2"], False),
        ("rltf_grpo_single", [CPU, f"{ROLLOUT}.top_p=0.9"], False),
        ("rltf_grpo_single", [CPU, "algorithm.rollout_correction.rollout_is=token"], False),
    ],
)
def test_only_one_exact_update_of_sampled_rows_reuses_them(preset, overrides, reused):
    config = composed(preset, *overrides)
    rltf = RLTFConfig.from_mapping(OmegaConf.to_container(config.rltf))
    assert may_reuse_log_probs(config, Method(rltf)) is reused


@pytest.mark.parametrize(
    ("preset", "overrides", "skipped"),
    [
        ("rltf_sd", [], True),
        ("rltf_fm", ["rltf/hardware=cpu_bf16", f"{ACTOR}.ppo_epochs=2"], True),
        ("rltf_grpo", [f"{ACTOR}.use_kl_loss=True"], False),  # pulls at every row
        ("rltf_grpo", [f"{ACTOR}.entropy_coeff=0.01"], False),
        ("rltf_grpo", [f"{ROLLOUT}.top_p=0.9"], False),
        ("rltf_grpo", ["algorithm.rollout_correction.rollout_is=token"], False),
        ("rltf_grpo", ["rltf/method=teacher/sdpo"], False),  # asks for the gap to the actor
    ],
)
def test_rows_that_train_nothing_are_left_unscored_where_nothing_else_reads_it(
    preset, overrides, skipped
):
    config = composed(preset, *overrides)
    rltf = RLTFConfig.from_mapping(OmegaConf.to_container(config.rltf))
    assert may_leave_unscored(config, rltf) is skipped
