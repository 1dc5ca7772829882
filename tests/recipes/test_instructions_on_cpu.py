"""recipes/instructions: each arm is the method that its name says, asks for as much, and starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.composing import RECIPES, composed, rltf_of
from tests.recipes.conftest import Start

SCRIPT = RECIPES / "instructions/instructions.sh"
Arm = Callable[..., list[str]]


@pytest.fixture
def arm(start: Start) -> Arm:
    """An arm's words for the trainer."""

    def words(name: str, *more: str, **variables: str) -> list[str]:
        (line,), _ = start(SCRIPT, name, *more, **variables)
        program, _, words = line.partition(" --config-name instructions ")
        assert program.startswith("python3 -m verl.trainer.main_ppo --config-dir ")
        return words.split()

    return words


@pytest.mark.parametrize(
    ("name", "objectives", "horizon", "n", "feedback"),
    [
        ("sd", {"attempt", "distill"}, 2, 4, ("verifier", "hint")),
        ("grpo", {"attempt"}, 2, 4, ("verifier", "hint")),
        ("grpo_single", {"attempt"}, 1, 6, ("verifier", "hint")),
        ("raft", {"imitate"}, 2, 4, ("verifier", "hint")),
        ("verdict", {"attempt", "distill"}, 2, 4, ("verifier", "verdict")),
        ("shuffled", {"attempt", "distill"}, 2, 4, ("shuffled", None)),
    ],
)
def test_an_arm(
    arm: Arm, name: str, objectives: set[str], horizon: int, n: int, feedback: Any
) -> None:
    words = arm(name)
    rltf = rltf_of("instructions", *words)
    weights = {one: getattr(rltf, one).weight for one in ("attempt", "distill", "imitate")}
    assert {one for one, weight in weights.items() if weight} == objectives
    assert (rltf.env.name, rltf.episode.horizon) == ("instructions", horizon)
    assert composed("instructions", *words).actor_rollout_ref.rollout.n == n
    options = rltf.feedback.provider.options
    assert (rltf.feedback.provider.name, options.get("level")) == feedback
    if name == "shuffled":
        assert dict(options["inner"]) == {"provider": "verifier", "level": "hint"}


def test_eight_gpus_and_other_data(arm: Arm) -> None:
    variables = {"NUM_GPUS": "8", "TUNE": "full", "MODEL": "Qwen/Qwen3-4B", "RLTF_DATA": "mine"}
    config = composed("instructions", *arm("sd", "data.train_batch_size=128", **variables))
    assert (config.trainer.n_gpus_per_node, config.data.train_batch_size) == (8, 128)
    assert config.actor_rollout_ref.model.path == "Qwen/Qwen3-4B"
    assert config.actor_rollout_ref.model.lora_rank == 0
    assert config.trainer.default_local_dir == "outputs/instructions/sd"


def test_data_and_what_is_held_out(start: Start) -> None:
    lines, _ = start(SCRIPT, "data", RLTF_DATA="mine")
    built = [line.partition("--out ")[2] for line in lines]
    assert built == ["mine", "mine/ifeval", "mine/ifbench"]
    assert ["--num-train 0" in line for line in lines] == [False, True, True]
    folders = [Path(file).parent.name for file in composed("instructions").data.val_files]
    assert folders == ["instructions", "ifeval", "ifbench"]
