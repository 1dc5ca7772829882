"""A folder with all that a small run names, right and wrong; and its command line."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import DictConfig

from rltf_verl.tools.data.build import build_parquet
from tests.support.configs import VALUE, composed
from tests.support.engine.tiny_model import tiny_model

MODEL = "actor_rollout_ref.model"
SAYS = 'Let\'s think step by step and output the final answer after "####".'
SCORER = """
def compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs):
    said = solution_str.rpartition("####")[2].strip()
    return {"score": float(said == ground_truth), "feedback": f"{said or 'nothing'} was read."}

def generous(data_source, solution_str, ground_truth, extra_info, **kwargs):
    return 1.0

def huge(data_source, solution_str, ground_truth, extra_info, **kwargs):
    said = solution_str.rpartition("####")[2].strip()
    return {"score": 1e6 if said == ground_truth else -1e6, "feedback": f"{said or 'none'}?"}


def graded(data_source, solution_str, ground_truth, extra_info, **kwargs):
    right = compute_score(data_source, solution_str, ground_truth, extra_info)
    return right if right["score"] else {**right, "score": 0.4}

def broken(data_source, solution_str, ground_truth, extra_info, **kwargs):
    raise KeyError("answer_type")
"""


OBJECTIVES = """
from rltf_verl.episode.rows import first_prompt_row
from rltf_verl.objectives.base import Objective

class NoRows(Objective):
    async def rows(self, policy, messages, episode):
        return [first_prompt_row(episode, 0, self.role)] if episode.scores else []

class NoLoss(Objective):
    def loss(self, log_prob, ref_log_probs, weights, mask):
        return (log_prob * self.settings.scale).sum()
"""


def rows(
    asks: str = SAYS, role: str = "user", first: int = 0, answer: float | None = None
) -> list[dict[str, Any]]:
    return [
        {
            "data_source": "mine",
            "prompt": [{"role": role, "content": f"What is {i} + 1? {asks}"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": answer or str(i + 1)},
            "extra_info": {"split": "train", "index": i, "answer": f"{i} + 1 = {i + 1}"},
        }
        for i in range(first, first + 12)
    ]


def fill(folder: Path) -> Path:
    """Data, models, a reward function."""
    tables = {
        "train": rows(),
        "test": rows(first=100),
        "half": rows()[:6],
        "boxed": rows("Put the answer in \\boxed{}."),
        "odd": rows(role="judge"),
        "late": [*rows(answer=1.0)[:11], *rows(answer=math.nan)[11:]],
    }
    for name, table in tables.items():
        pq.write_table(pa.Table.from_pylist(table), folder / f"{name}.parquet")
    pq.write_table(pa.Table.from_pylist(rows())[:0], folder / "empty.parquet")
    (folder / "train.csv").write_text("question,answer\n")
    (folder / "reward.py").write_text(SCORER)
    (folder / "mine.py").write_text("class Mine:\n    pass\n")
    (folder / "objectives.py").write_text(OBJECTIVES)
    build_parquet("binary_matrix", folder / "matrix", 0, 12, 4, n_min=3, n_max=3, style="compact")
    tiny_model(folder / "model")
    tiny_model(folder / "short", context=1000)
    tiny_model(folder / "window", window=8)
    tiny_model(folder / "untold", template=False)
    tiny_model(folder / "bare")
    (folder / "bare" / "model.safetensors").unlink()
    tiny_model(folder / "mute")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "mute" / name).unlink()
    strict = tiny_model(folder / "strict") / "chat_template.jinja"
    roles = (
        "{% if m.role not in ('user', 'assistant') %}{{ raise_exception('no role') }}{% endif %}"
    )
    strict.write_text("{% for m in messages %}" + roles + "{{ m.content }}{% endfor %}")
    (folder / "nothing").mkdir()
    return folder


GROUPS = ("rltf/method=sd", "rltf/hardware=cpu", "rltf/env=reward_function")
GOOD = (
    f"{MODEL}.path=model",
    "data.train_files=train.parquet",
    "data.val_files=test.parquet",
    "data.train_batch_size=4",
    "custom_reward_function.path=reward.py",
    "trainer.logger=[console,file]",
    "trainer.test_freq=5",
    "trainer.save_freq=5",
)


def configured(*words: str) -> DictConfig:
    """Overrides, as on the command line -> a config that is right but for them."""
    replaced = {word.partition("=")[0] for word in words if not VALUE.match(word)}
    groups = (word for word in GROUPS if word.partition("=")[0] not in replaced)
    return composed("rltf", *groups, *GOOD, *words)


def pretend(patch: pytest.MonkeyPatch, device: str, num: int = 0, bf16: bool = True) -> None:
    """Be another machine."""
    there = SimpleNamespace(
        is_available=lambda: num > 0,
        device_count=lambda: num,
        is_bf16_supported=lambda **_: bf16,
        get_device_name=lambda: "Tesla T4",
    )
    patch.setattr("verl.utils.device.get_device_name", lambda: device)
    patch.setattr("verl.utils.device.get_torch_device", lambda: there)
