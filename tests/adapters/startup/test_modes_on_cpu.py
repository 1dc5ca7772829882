"""What each trainer mode asks of the rest of the config."""

import pytest

from rltf_verl.adapters.startup.modes import mode_combinations
from tests.support.configs import composed

SEPARATE = [
    "trainer.v1.trainer_mode=rltf_separate_async",
    "actor_rollout_ref.rollout.nnodes=1",
    "data.train_batch_size=32",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
]


def refused(*overrides: str) -> list[str]:
    config = composed("rltf_sd", "rltf/hardware=cpu", *overrides)
    return [message for ok, message in mode_combinations(config) if not ok]


@pytest.mark.parametrize("mode", ["rltf_sync", "rltf_colocate_async"])
def test_the_colocated_modes_ask_for_nothing(mode: str) -> None:
    assert refused(f"trainer.v1.trainer_mode={mode}", "actor_rollout_ref.model.lora_rank=4") == []


def test_a_complete_separate_config_passes() -> None:
    assert refused(*SEPARATE) == []
    assert (
        refused(
            *SEPARATE,
            "actor_rollout_ref.model.lora_rank=4",
            "actor_rollout_ref.model.lora.merge=true",
        )
        == []
    )


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "actor_rollout_ref.rollout.nnodes=0",
            "actor_rollout_ref.rollout.nnodes=0, n_gpus_per_node=1: ",
        ),
        (
            "actor_rollout_ref.rollout.checkpoint_engine.backend=naive",
            "set it to nccl, or to cpu with rltf/hardware=cpu",
        ),
        (
            "trainer.v1.separate_async.parameter_sync_step=2",
            "data.train_batch_size / parameter_sync_step = 16",
        ),
        ("actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora.merge=False: "),
    ],
)
def test_what_cannot_work_is_named_with_its_value_and_the_fix(override: str, said: str) -> None:
    messages = refused(*SEPARATE, override)
    assert len(messages) == 1
    assert said in messages[0]
