"""One training step through the real `main_ppo` for each family of environments, with the tiny policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rltf_verl.data.build import build_parquet
from rltf_verl.report.episode_log import read_episodes
from tests.e2e import runs
from tests.feedback.judge_server import InThread, JudgeServer

pytestmark = pytest.mark.e2e
GROUP, BATCH = 2, 4
ONE_STEP = [
    "trainer.total_training_steps=1", "trainer.save_freq=-1", "trainer.test_freq=-1", "data.max_prompt_length=600",
    f"actor_rollout_ref.rollout.n={GROUP}", f"data.train_batch_size={BATCH}",
]  # fmt: skip


def trained(folder: Path, env: str, options: dict[str, Any], *overrides: str, method: str = "sd") -> list[Any]:
    """Episodes of one step on problems that are built for it."""
    paths = build_parquet(env, folder / "data", 0, 8, 2, **options)
    data = {"data.train_files": str(paths.train), "data.val_files": str(paths.test)}
    settings = [f"{'' if key == 'style' else '+'}rltf.env.{key}={value}" for key, value in options.items()]
    run = runs.start(folder / "run", data, [*ONE_STEP, f"rltf/env={env}", *settings, *overrides], method)
    assert run.wait(400) == 0, run.log[-3000:]
    steps = [m["data"] for m in run.metrics() if "actor/loss" in m["data"]]
    assert len(steps) == 1
    assert steps[0]["rltf/grader/error_share"] == 0
    episodes = read_episodes(run.episodes)
    assert len(episodes) == GROUP * BATCH
    assert {record["env"] for record in episodes} == {env}
    return episodes


@pytest.mark.nightly
def test_a_dialogue_with_a_teacher(tmp_path: Path) -> None:
    server = JudgeServer(reply=lambda body: "Thinking: no.\n\nHint: 010")
    with InThread(server):
        episodes = trained(
            tmp_path, "binary_matrix", {"style": "compact", "n_max": 3}, "rltf.episode.revise=compact_append",
            f"rltf.feedback.endpoint.base_url={server.url}", "rltf.feedback.endpoint.model=m", method="rl2f",
        )  # fmt: skip
    assert max(len(record["turns"]) for record in episodes) == 5
    hints = {turn["feedback"]["text"] for record in episodes for turn in record["turns"] if turn["feedback"]}
    assert hints == {"010"}
    assert len(max(server.bodies, key=lambda body: len(body["messages"]))["messages"]) == 7, "it remembers its hints"
