"""Every preset takes two steps through the real `main_ppo`."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
METHODS = Path(__file__).parents[2] / "hydra_configs" / "rltf_verl" / "rltf" / "method"
PRESETS = sorted(
    str(file.relative_to(METHODS).with_suffix(""))
    for file in METHODS.rglob("*.yaml")
    # The first needs a judge, the second programs: recipes/, test_evaluation_e2e.py. The last is
    # a part.
    if file.stem not in ("rl2f", "rlef", "base")
)
SMALL = [
    "trainer.total_training_steps=2",
    "trainer.save_freq=-1",
    "trainer.test_freq=-1",
    "data.max_prompt_length=100",
    "actor_rollout_ref.rollout.n=4",
    "data.train_batch_size=6",
    "rltf.feedback_modeling.critic=compact",
    "actor_rollout_ref.actor.optim.lr=1e-4",
]
TOLD = [
    "rltf.feedback.even.level=full",
    "rltf.feedback.acknowledge_leaks=true",
    "rltf.feedback.guard.action=none",
]
SHORT = ["rltf.teacher.prompt=teacher/compact"]
SPECIAL = {
    **dict.fromkeys(("teacher/sdpo", "teacher/sc_sdpo"), SHORT),
    "echo": ["rltf.episode.revise=compact_append"],
    "group_critique": [
        *("data.max_prompt_length=400", "rltf.feedback.each.level=full"),
        *("rltf.feedback.acknowledge_leaks=true", "rltf.feedback.guard.action=none"),
    ],
    "fm_inline": ["rltf.episode.revise=compact_append"],
    "ufo": ["rltf.episode.revise=compact_append"],
    "self_critique": ["rltf.feedback.critic=compact"],
    "dual_critique": ["rltf.feedback.odd.critic=compact", *TOLD],
    "release/dual_critique": ["rltf.feedback.odd.critic=compact", *TOLD],
    # The data has no demonstrations.
    "teacher/sdft": ["rltf.teacher.reads=[demonstration,reference]"],
}
MIXED = ["actor_rollout_ref.rollout.temperature=2"]
"""At temperature 1 all first answers are wrong and all second ones right: against its own siblings
no turn then has an advantage, and what has no first-turn baseline has no gradient (the paper's
collapse of the second-turn baseline)."""

COLLAPSING = {
    "grpo",
    "ufo",
    "group_critique",
    "teacher/rlcsd",
    "teacher/rlsd",
    "teacher/srpo",
    "sd_second_turn",
    "release/grpo",
    "release/sd",
    "release/sd_cispo",
    "release/sd_ppo",
    "release/sd_second_turn",
}

OBJECTIVES = {
    "sd": ["distill"],
    "sft": ["imitate"],
    "raft": ["imitate"],
    "fm": ["feedback_modeling"],
    "self": ["critique"],
    "dual": ["critique", "feedback_modeling"],
}


OTHERS = {
    **dict.fromkeys(("critique_grpo", "guided", "group_critique"), "distill"),
    "insight": "imitate",
    "echo": "feedback_modeling",
}
"""Presets whose names say something else."""


def expected_objectives(preset: str) -> set[str]:
    """What stands in the name, and what the file adds."""
    if preset.startswith("teacher/"):
        return {"attempt", "logit_distill"}
    if preset in OTHERS:
        return {"attempt", OTHERS[preset]}
    words = preset.removeprefix("release/").split("_")
    added = OmegaConf.load(METHODS / f"{preset}.yaml").get("objectives", {})
    known = (objective for word in words for objective in OBJECTIVES.get(word, []))
    return {"attempt", *added, *known}


@pytest.mark.parametrize("preset", PRESETS)
def test_two_steps(preset: str, tmp_path: Path) -> None:
    mixed = MIXED if preset in COLLAPSING else []
    run = played(tmp_path, preset, *mixed, *SPECIAL.get(preset, []))
    steps = run.training_steps(2)
    seen = {name.split("/")[1] for step in steps for name in step if name.endswith("/token_share")}
    assert seen == expected_objectives(preset)
    assert all(step["rltf/attempt/sampler_log_prob_diff/max"] < 1e-3 for step in steps)
    # A policy that is never right at once: nothing to learn without feedback, or by √(p(1 − p)).
    if preset not in ("grpo_single", "teacher/sc_sdpo"):
        assert any(step["actor/grad_norm"] > 0 for step in steps)


def test_several_updates_per_batch(tmp_path: Path) -> None:
    run = played(
        tmp_path,
        "sd_fm",
        "rltf.updates_per_batch=3",
        "actor_rollout_ref.actor.policy_loss.loss_mode=rltf_ppo",
    )
    steps = run.training_steps(2)
    assert all(step["actor/grad_norm"] > 0 for step in steps)
    assert all(step["rltf/attempt/sampler_log_prob_diff/max"] < 1e-3 for step in steps), (
        "old log-probs are the batch's"
    )


def played(folder: Path, preset: str, *overrides: str) -> runs.Run:
    """A run of two steps, at its end."""
    run = runs.start(
        folder / "run", runs.build_data(folder / "data"), [*SMALL, *overrides], preset
    ).finished(600)
    assert len(read_episodes(run.episodes)) == 2 * 6 * 4
    return run
