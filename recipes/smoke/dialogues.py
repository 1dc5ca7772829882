"""What the smoke test of an SFT experiment needs: dialogues, made as a user makes them, and verl's
SFT trainer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf


def write_dialogues(
    config: DictConfig, train: Path, folder: Path, judge_url: str, env: Mapping[str, str]
) -> Path:
    """Play the problems of `train` by `rltf eval`, the endpoint as both sides, and export them.

    Args:
        config: of the experiment whose episodes they are.
        train: parquet file of problems.
        folder: for the episodes and the file.
        judge_url: endpoint.
        env: of the processes.

    Raises:
        subprocess.CalledProcessError: a command failed; it holds the output of the command.
    """
    settings, episodes, out = (
        folder / "settings.yaml",
        folder / "sessions",
        folder / "dialogues.parquet",
    )
    OmegaConf.save(config, settings, resolve=True)
    revise = config.rltf.episode.revise
    endpoints = [
        *(f"endpoint.base_url={judge_url}", "endpoint.model=loopback"),
        *(f"feedback.endpoint.base_url={judge_url}", "feedback.endpoint.model=loopback"),
    ]
    play = ["eval", train, "--config", settings, *endpoints, "episode.stop_when_solved_val=true"]
    play += ["--rounds", config.rltf.episode.horizon - 1, "--out", episodes]
    play += ["-n", config.actor_rollout_ref.rollout.n]
    # A judge that plays the student is never right, hence --wrong-too.
    kept = ["--split", "val", "--revise", revise, "--wrong-too", "--overwrite"]
    for words in (play, ["log", "export", episodes / "episodes", "--out", out, *kept]):
        command = [
            sys.executable,
            "-c",
            "from rltf_verl.tools.cli.app import main; main()",
            *map(str, words),
        ]
        subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return out


def sft_command(options: Sequence[str], dialogues: Path, folder: Path) -> list[str]:
    """The trainer with its data; `options` name the experiment."""
    return [
        *(sys.executable, "-u", "-m", "verl.trainer.sft_trainer", *options),
        f"data.train_files={dialogues}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
    ]


def sft_variables(folder: Path) -> dict[str, str]:
    """What `torchrun` would set for one process. It meets no other one, so that a file is enough
    and no port is opened."""
    world = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    meeting = {"DIST_INIT_METHOD": f"file://{folder / 'rendezvous'}"}
    return world | meeting | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # verl reads them
