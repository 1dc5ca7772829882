"""What verl users bring, in the real trainer: a dataset and a reward function as they are, with an
objective and a baseline of one's own. No answer form is asked for.
"""

import re
import shlex
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


PAGE = (
    (runs.ROOT / "docs" / "coming_from.md")
    .read_text("utf-8")
    .partition("\n## verl's interactions")[0]
)
ON_THIS_MACHINE = [
    "rltf/hardware=cpu",
    "rltf.episode_log.ids=true",
    "data.max_prompt_length=256",
    "trainer.val_before_train=true",
    "trainer.total_training_steps=1",
    "trainer.test_freq=1",
    "+rltf.objectives.unlearn=./unlearn.py:Unlearn",
    "+rltf.unlearn.weight=0.1",
    "rltf.distill.baseline=./unlearn.py:best_first_answer",
    "rltf.feedback.guard.action=none",
    "rltf.feedback.acknowledge_leaks=true",
]
"""What a tiny policy on a CPU needs, and objectives of one's own."""


def launch_script(data: dict[str, str]) -> str:
    """A GRPO run of verl, as its users start one."""
    words = [
        "algorithm.adv_estimator=grpo",
        *(word for word in runs.SETTINGS if not word.startswith("rltf")),
        *(f"{key}={path}" for key, path in data.items()),
        "custom_reward_function.path=./reward.py",
        "custom_reward_function.name=compute_score",
        "+custom_reward_function.reward_kwargs.weight=0.5",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    ]
    lines = " \\\n    ".join(shlex.quote(word) for word in words)
    return f"set -x\nFREQ=${{FREQ:-1}}\npython3 -m verl.trainer.main_ppo {lines} $@\n"


def test_the_page_for_verls_users_with_an_own_objective_and_baseline(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        launch_script(in_verls_form(tmp_path / "data", "mine/matrix")), "utf-8"
    )
    (tmp_path / "reward.py").write_text(REWARD)
    shutil.copy(runs.ROOT / "docs" / "examples" / "unlearn.py", tmp_path)
    behind = shlex.join([*ON_THIS_MACHINE, *runs.folders(tmp_path)])
    adopt, plan, doctor, *after = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    assert ("rltf plan" in plan, "rltf doctor" in doctor) == (True, True), "tests of their own"
    for block in (adopt, *after):
        if block.startswith("rltf compare"):
            (tmp_path / "grpo").mkdir()
            shutil.copy(tmp_path / "metrics.jsonl", tmp_path / "grpo")
        words = block.replace("bash run_rltf.sh", f"bash run_rltf.sh {behind}")
        run = runs.launch(tmp_path, ["bash", "-ec", words])
        assert run.wait(600) == 0, f"{block}\n{run.log[-3000:]}"
    for made in ("page.html", "compare/compare.json"):
        assert (tmp_path / made).is_file()
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
    pairs = [record["turns"][:2] for record in episodes if len(record["turns"]) > 1]
    assert pairs
    for first, second in pairs:  # `rltf.episode.context=null`: the conversation goes on
        before = first["prompt_ids"] + first["response_ids"]
        assert second["prompt_ids"][: len(before)] == before
