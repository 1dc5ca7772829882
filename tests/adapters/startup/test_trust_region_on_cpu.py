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


EPOCHS = f"{ACTOR}.ppo_epochs=2"
DISTILL = "rltf.distill.reference=current"
TWO_UPDATES = "rltf.updates_per_batch=2"


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        ((TWO_UPDATES, UNCLIPPED), UNCLIPPED, "(rltf.updates_per_batch=2)"),
        (
            (f"{ACTOR}.ppo_epochs=3", "rltf.distill.weight=0", UNCLIPPED),
            UNCLIPPED,
            f"({ACTOR}.ppo_epochs=3)",
        ),
        (
            (*SEPARATE, UNCLIPPED),
            UNCLIPPED,
            "(trainer.v1.separate_async.parameter_sync_step=4)",
        ),
        ((TWO_UPDATES, UNCLIPPED), UNCLIPPED, "choose rltf_ppo"),
        # the default clips
        ((TWO_UPDATES,), None, ""),
        ((f"{ACTOR}.ppo_epochs=3", "rltf.distill.weight=0"), None, ""),
        (SEPARATE, None, ""),
        # one update needs no trust region
        ((UNCLIPPED,), None, ""),
        ((SEPARATE[1], UNCLIPPED), None, ""),  # of a mode that is not the chosen one
        ((TWO_UPDATES, UNCLIPPED, "rltf.attempt.weight=0"), None, ""),
        # rows without a ratio
        ((EPOCHS,), DISTILL, "set it to old with rltf.distill.loss=ppo"),
        ((EPOCHS, "rltf.distill.reference=old", "rltf.distill.loss=ppo"), None, ""),
        ((EPOCHS, "rltf.distill.weight=0"), None, ""),
    ],
)
def test_a_loss_that_clips_nothing_is_warned_about_where_the_ratio_moves(
    verl_config, caplog, overrides, key, words
):
    checks.checked_parts(verl_config(*overrides))
    texts = [record.getMessage() for record in caplog.records]
    keys = [text.partition(": ")[0] for text in texts if "update" in text or "epochs" in text]
    assert keys == ([key] if key else [])
    assert words in " ".join(texts)
