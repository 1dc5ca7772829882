"""A dataset and a reward function as verl users have them, in the real trainer: nothing is
converted, no answer form is asked for. Beside them an objective and a baseline of one's own.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = pytest.mark.e2e

REWARD = """
async def compute_score(data_source, solution_str, ground_truth, extra_info, weight):
    right = "".join(solution_str.split()) == "".join(ground_truth.split())
    shared = sum(a == b for a, b in zip(solution_str, ground_truth)) / len(ground_truth)
    return {"score": weight * shared, "acc": right, "pred": solution_str, "feedback": ground_truth}
"""


def in_verls_form(folder: Path, data_source: str) -> dict[str, str]:
    """The 3x3 problems of the other runs as `examples/data_preprocess` of verl writes rows."""
    data = runs.build_data(folder)
    for path in data.values():
        rows = [
            {
                "data_source": data_source,
                "prompt": row["prompt"],
                "ability": "math",
                "reward_model": row["reward_model"],
                "extra_info": {"split": "train", "index": i, "answer": "####", "question": "?"},
            }
            for i, row in enumerate(pq.read_table(path).to_pylist())
        ]
        pq.write_table(pa.Table.from_pylist(rows), path)
    return data


def started(folder: Path, data: dict[str, str], *overrides: str) -> runs.Run:
    steps = ["trainer.total_training_steps=1", "trainer.save_freq=-1", "trainer.test_freq=1"]
    run = runs.start(folder, data, [*overrides, *steps], env="reward_function")
    assert run.wait(600) == 0, run.log[-3000:]
    return run


def test_an_own_reward_function_objective_and_baseline(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    shutil.copy(runs.ROOT / "docs" / "examples" / "unlearn.py", tmp_path)
    run = started(
        tmp_path,
        in_verls_form(tmp_path / "data", "mine/matrix"),
        "+rltf.objectives.unlearn=./unlearn.py:Unlearn",
        "+rltf.unlearn.weight=0.1",
        "rltf.distill.baseline=./unlearn.py:best_first_answer",
        "custom_reward_function.path=./reward.py",
        "custom_reward_function.name=compute_score",
        "+custom_reward_function.reward_kwargs.weight=0.5",
        "rltf/feedback=verifier",
        "rltf.feedback.guard.action=none",
        "rltf.feedback.acknowledge_leaks=true",
    )
    episodes = list(read_episodes(run.episodes))
    assert {record["split"] for record in episodes} == {"train", "val"}
    (losses,) = [m["data"] for m in run.metrics() if "rltf/unlearn/loss" in m["data"]]
    assert losses["rltf/unlearn/loss"] >= 0
    wrong = [r["turns"][0] for r in episodes if r["turns"][0]["feedback"]]
    assert wrong
    for record in episodes:
        first = record["turns"][0]
        assert first["grade"]["error"] is None
        assert first["grade"]["parsed"] == first["text"]
        assert 0 <= first["grade"]["score"] <= 0.5
        if first["feedback"]:
            assert first["feedback"]["text"].endswith(record["reference"])


@pytest.mark.nightly
def test_verls_own_scorer(tmp_path: Path) -> None:
    data = in_verls_form(tmp_path / "data", "openai/gsm8k")
    episodes = list(read_episodes(started(tmp_path, data, "rltf/feedback=verifier").episodes))
    texts = {t["feedback"]["text"] for r in episodes for t in r["turns"] if t["feedback"]}
    assert texts == {"Your previous answer is incorrect."}
    assert all(t["grade"]["error"] is None for r in episodes for t in r["turns"])
