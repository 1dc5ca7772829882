"""What is logged where several updates share old log-probs."""

import pytest

from rltf_verl.adapters.startup import checks

ACTOR = "actor_rollout_ref.actor"
SEPARATE = (
    "trainer.v1.trainer_mode=rltf_separate_async",
    "trainer.v1.separate_async.parameter_sync_step=4",
    "data.train_batch_size=8",
    f"{ACTOR}.ppo_mini_batch_size=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
)
UNCLIPPED = f"{ACTOR}.policy_loss.loss_mode=importance_sampling"


@pytest.fixture
def logged(verl_config, caplog):
    def of(*overrides):
        caplog.clear()
        checks.check_config(verl_config(*overrides))
        texts = [record.getMessage() for record in caplog.records]
        return [
            text.partition(": ")[0] for text in texts if "update" in text or "epochs" in text
        ], " ".join(texts)

    return of


@pytest.mark.parametrize(
    ("updates", "named"),
    [
        (("rltf.updates_per_batch=2",), "(rltf.updates_per_batch=2)"),
        ((f"{ACTOR}.ppo_epochs=3", "rltf.distill.weight=0"), f"({ACTOR}.ppo_epochs=3)"),
        (SEPARATE, "(trainer.v1.separate_async.parameter_sync_step=4)"),
    ],
)
def test_a_loss_that_clips_nothing_is_warned_about_where_the_ratio_moves(logged, updates, named):
    keys, text = logged(*updates, UNCLIPPED)
    assert keys == [UNCLIPPED]
    assert named in text
    assert "choose rltf_ppo" in text
    assert logged(*updates)[0] == [], "the default clips"


def test_one_update_needs_no_trust_region(logged):
    assert logged(UNCLIPPED)[0] == []
    assert logged(*SEPARATE[1:2], UNCLIPPED)[0] == [], "of a mode that is not the chosen one"
    assert logged("rltf.updates_per_batch=2", UNCLIPPED, "rltf.attempt.weight=0")[0] == []


def test_rows_without_a_ratio_are_warned_about_over_several_epochs(logged):
    keys, text = logged(f"{ACTOR}.ppo_epochs=2")
    assert keys == ["rltf.distill.reference=current"]
    assert "set it to old with rltf.distill.loss=ppo" in text
    for clipped in (
        ("rltf.distill.reference=old", "rltf.distill.loss=ppo"),
        ("rltf.distill.weight=0",),
    ):
        assert logged(f"{ACTOR}.ppo_epochs=2", *clipped)[0] == []
