"""The trainer process beside plain verl GRPO with rows of 4k tokens, and TransferQueue under both:
`OMP_NUM_THREADS=1 python benchmarks/driver.py`.

Problems x 8 episodes x 2 answers are put into the real queue (Ray, two storage units, as
`rltf/hardware=gpu` has them), in the columns that an episode's rows and the actor's pass have. On
the same rows then:

poll      verl's look at the queue, which the trainer repeats while episodes are played
verl      `PPOTrainer._compute_advantage` with GRPO: read, advantages, write
ours      `StepRows.read`, `compute_step` and `write` of `rltf_grpo`, with all its metrics
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import ray
import torch
import transfer_queue as tq
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from trainer_runs import write_numbers
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from rltf_verl.adapters.queue.columns import EPISODE_FACTS, FACTS, ROLE, TURN
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.startup.rules import rltf_of
from rltf_verl.adapters.training.step import StepSettings, compute_step
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.types import Role

EPISODES, TURNS, PUT = 8, 2, 64
"""Episodes of a problem, rows of an episode, rows of one put."""
PARTITION, POLLS = "train", 20


def row(uid: str, turn: int, rewards: Sequence[float], prompt: int, answer: int) -> dict[str, Any]:
    """The columns of one row; its log-probs are random."""
    log_probs = -torch.rand(answer)
    facts = torch.full((TURNS, len(EPISODE_FACTS)), float("nan"))
    for k, reward in enumerate(rewards):
        known = {"reward": reward, "graded": reward, "correct": reward}
        facts[k] = torch.tensor([float(known.get(name, 0.0)) for name in EPISODE_FACTS])
    ones, scores = torch.ones(answer, dtype=torch.int64), torch.zeros(answer)
    scores[-1] = rewards[turn]
    ids = torch.randint(0, 1000, (prompt + answer,))
    return {
        "uid": uid,
        "prompts": ids[:prompt],
        "responses": ids[prompt:],
        "input_ids": ids,
        "position_ids": torch.arange(prompt + answer),
        "response_mask": ones,
        "loss_mask": ones.clone(),
        "rm_scores": scores,
        "rollout_log_probs": log_probs,
        "old_log_probs": log_probs + 0.01,
        "entropy": torch.rand(answer),
        ROLE: torch.full((answer,), int(Role.ATTEMPT), dtype=torch.int32),
        TURN: torch.full((answer,), turn, dtype=torch.int32),
        FACTS: facts,
    }


def fill(num_problems: int, prompt: int, answer: int) -> KVBatchMeta:
    """Put the rows of a batch, `PUT` at a time; answers have `answer` tokens less up to a tenth."""
    draw = np.random.default_rng(0)
    keys: list[str] = []
    tags: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []

    def put() -> None:
        here = slice(len(keys) - len(waiting), None)
        fields = list_of_dict_to_tensordict(waiting)
        tq.kv_batch_put(keys=keys[here], partition_id=PARTITION, fields=fields, tags=tags[here])
        waiting.clear()

    for problem in range(num_problems):
        for episode in range(EPISODES):
            rewards = [float(draw.random() < 0.3), float(draw.random() < 0.6)]
            for turn in range(TURNS):
                length = answer - int(draw.integers(0, answer // 10))
                keys.append(f"{problem:08x}_{episode}_{turn}")
                tags.append(
                    {"response_len": length, "seq_len": prompt + length, "status": "success"}
                )
                waiting.append(row(f"{problem:08x}", turn, rewards, prompt, length))
                if len(waiting) == PUT:
                    put()
    if waiting:
        put()
    return KVBatchMeta(partition_id=PARTITION, keys=keys, tags=tags)


def clocked(work: Callable[[], object]) -> dict[str, float]:
    """Seconds of the wall and of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def storage_bytes() -> int:
    """Of the queue's processes, with what they import."""
    processes = psutil.process_iter(["cmdline", "memory_info"])
    named = (p for p in processes if "ray::SimpleStorageUnit" in " ".join(p.info["cmdline"] or ()))
    return sum(p.info["memory_info"].rss for p in named)


def measure(num_problems: int, prompt: int, answer: int) -> dict[str, Any]:
    """All clocks at one size."""
    names = {"verl": ("ppo_trainer", ["algorithm.adv_estimator=grpo"]), "ours": ("rltf_grpo", [])}
    configs = {}
    with initialize_config_module("verl.trainer.config", version_base=None):
        for name, (config, words) in names.items():
            sizes = [f"data.train_batch_size={num_problems}", f"data.max_response_length={answer}"]
            sizes += [f"actor_rollout_ref.rollout.n={EPISODES}"]
            configs[name] = compose(config, [*words, *sizes])
    start = time.perf_counter()
    batch = fill(num_problems, prompt, answer)
    put_s = time.perf_counter() - start
    verl: Any = SimpleNamespace(config=configs["verl"])
    settings = StepSettings(Method(rltf_of(configs["ours"])), configs["ours"], Now(0, 100, 0))
    buffer = ReplayBuffer("sync", OmegaConf.create({}), None, "drop", OmegaConf.create({}))

    def ours() -> None:
        rows = StepRows.read(batch)
        compute_step(rows, settings).write(rows)

    work = {
        "poll": lambda: [buffer._sync_metadata_from_transfer_queue() for _ in range(POLLS)],
        "verl": lambda: PPOTrainer._compute_advantage(verl, batch, {}),
        "ours": ours,
    }
    found = {
        "problems": num_problems,
        "rows": len(batch.keys),
        "tokens": sum(tag["seq_len"] for tag in batch.tags),
        "put_s": put_s,
        "storage_bytes": storage_bytes(),
        **{name: clocked(each) for name, each in work.items()},
    }
    tq.kv_clear(keys=batch.keys, partition_id=PARTITION)
    return found


def show(result: dict[str, Any]) -> None:
    """A line of the table."""
    clocks = "".join(
        f"{result[way]['wall_s']:8.2f}{result[way]['cpu_s']:8.2f}" for way in ("verl", "ours")
    )
    print(
        f"{result['rows']:6}{result['put_s']:8.1f}{result['storage_bytes'] / 1e9:8.2f}"
        f"{1000 * result['poll']['wall_s'] / POLLS:8.1f}{clocks}",
        flush=True,
    )


def main() -> None:
    """Measure, print the table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=3584)
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    tq.init(
        OmegaConf.create(
            {
                "backend": {
                    "storage_backend": "SimpleStorage",
                    "SimpleStorage": {"num_data_storage_units": 2},
                }
            }
        )
    )
    names = ("put s", "GB", "poll ms", "verl s", "CPU", "ours s", "CPU")
    print("  rows" + "".join(f"{name:>8}" for name in names), flush=True)
    results = []
    for number in args.problems:
        results.append(measure(number, args.prompt, args.answer))
        show(results[-1])
    write_numbers("driver", args, {"results": results})
    tq.close()
    ray.shutdown()


if __name__ == "__main__":
    main()
