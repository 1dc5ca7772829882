"""How many episodes one agent-loop worker carries: `python benchmarks/reach.py`.

A worker as in training, in a Ray actor: verl's worker with our episodes, a real tokenizer, the
environment, a judge over loopback behind the job's one runtime, the episode log and TransferQueue.
Only the sampler is scripted: an actor that answers after as long as an engine needs that makes
`--engine` tokens per second for all episodes together. An episode has two answers and a critique by
the judge between them, with `--steps` two trajectories in the office of recipes/agents and its
verifier's notes.
Per number of episodes at once, each in a fresh worker:

CPU     ms of the worker's process per answer, its threads included
lag     of its event loop (`rltf/worker/loop_lag…`), seconds
memory  KB by which the process is larger while all episodes wait for their first answer, each
rows    stored in the queue per second of the whole run
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
import pyarrow.parquet as pq
import ray
import transfer_queue as tq
from hydra import compose, initialize_config_module
from judge import SERVER
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from trainer_runs import TOKENIZER
from transformers import AutoTokenizer
from verl.utils import tensordict_utils as tu
from verl.workers.rollout.replica import TokenOutput

from rltf_verl.adapters.rollout.agent_worker import RLTFAgentLoopWorker
from rltf_verl.adapters.rollout.llm_client import OnlyServerClient
from rltf_verl.adapters.rollout.loop_lag import quantile
from rltf_verl.tools.data.build import build_parquet

GROUP, POLL_S = 8, 0.1
OFFICE = f"{Path(__file__).resolve().parents[1]}/recipes/agents/office.py:Workspace"
SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
CALL = '<tool_call>{"name": "add_note", "arguments": {"ticket": "T1", "text": "a"}}</tool_call>'
SENTENCES = ("Row two has three ones.", "So the next cell must be 0.", "Check the last line again.")


@ray.remote
class Sampler:
    """Answers of a log-normal length, the last line a wrong matrix or a tool call, at the engine's
    pace.
    """

    def __init__(self, model: str, tokens: int, tokens_per_s: float, steps: float | None) -> None:
        self.draw = random.Random(0)
        tokenizer = AutoTokenizer.from_pretrained(model)
        text = " ".join(self.draw.choices(SENTENCES, k=4 * tokens))
        self.ids = tokenizer(text, add_special_tokens=False)["input_ids"][: 4 * tokens]
        self.ends = [
            [*tokenizer(end, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
            for end in ("\n\\boxed{000\n000\n000}", CALL)
        ]
        self.tokens, self.tokens_per_s = tokens, tokens_per_s
        self.calls = 0.0 if steps is None else 1 - 1 / steps
        self.running = self.num = 0

    async def answers(self) -> int:
        """How many there were."""
        return self.num

    async def generate(self, prompt_ids: list[int], **_: Any) -> TokenOutput:
        """A token takes as long as there are requests."""
        length = min(len(self.ids), int(self.draw.lognormvariate(0.0, 0.5) * self.tokens))
        ids = self.ids[:length] + self.ends[self.draw.random() < self.calls]
        self.num += 1
        self.running += 1
        await asyncio.sleep(len(ids) * max(self.running / self.tokens_per_s, 0.01))
        self.running -= 1
        log_probs = [-self.draw.random() for _ in ids]
        extra = {"global_steps": 0}
        return TokenOutput(
            token_ids=ids, log_probs=log_probs, stop_reason="completed", extra_fields=extra
        )


class Client(OnlyServerClient):
    """Ours, to the one sampler."""

    def __init__(self, config: DictConfig, sampler: Any) -> None:
        super().__init__(config=config, load_balancer_handle=None)
        self._only = ("sampler", sampler)


@ray.remote
class Worker(RLTFAgentLoopWorker):
    """Measures itself."""

    async def measured(self, batch: TensorDict) -> dict[str, float]:
        """Play a batch of problems to the end."""
        process = psutil.Process()
        before, sizes = process.memory_info().rss, []
        start, cpu = time.perf_counter(), time.process_time()
        await self.generate_sequences(batch)
        while self.background_tasks:
            await asyncio.sleep(POLL_S)
            sizes.append(process.memory_info().rss)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        lag = await self.loop_lag()
        return {
            "seconds": seconds,
            "cpu_ms": 1000 * cpu,
            **{name: quantile(lag, share) for name, share in SHARES.items()},
            "kb": (max(sizes) - before) / 1024 / (GROUP * len(batch)),
        }


def config_of(args: argparse.Namespace, judge: str, folder: str) -> DictConfig:
    """A run's configuration: RLTF-SD with the judge's critiques."""
    judged = [
        "rltf/feedback=judge",
        f"rltf.feedback.endpoint.base_url={judge}",
        "rltf.feedback.endpoint.model=m",
        f"rltf.feedback.limits.max_concurrency={args.judge_calls}",
        "rltf.env.style=compact",
    ]
    words = [
        "rltf/hardware=cpu",
        *(["rltf/env=own", f"rltf.env.name={OFFICE}"] if args.steps else judged),
        f"rltf.episode_log.dir={folder}",
        f"actor_rollout_ref.model.path={args.model}",
        f"actor_rollout_ref.rollout.n={GROUP}",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "data.max_prompt_length=4096",
        f"data.max_response_length={8 * args.tokens}",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("rltf_sd", [*words, *args.overrides])
    OmegaConf.resolve(config)  # as verl's trainer does
    return config


def batch_of(folder: Path, number: int, steps: float | None) -> TensorDict:
    """Problems as verl's dataset hands them out."""
    small = {"n_min": 3, "n_max": 3, "style": "compact"}
    env, options = (OFFICE, {}) if steps else ("binary_matrix", small)
    built = build_parquet(env, folder, 0, number, 8, **options)
    rows = pq.read_table(built.train).to_pylist()
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    columns["raw_prompt"] = columns.pop("prompt")
    columns |= {"index": list(range(number)), "uid": [f"{i:08x}" for i in range(number)]}
    arrays = {}
    for key, values in columns.items():
        arrays[key] = np.empty(number, dtype=object)
        arrays[key][:] = values
    batch = tu.get_tensordict(arrays)
    tu.assign_non_tensor_data(batch, "global_steps", 1)
    return batch


def measure(args: argparse.Namespace, judge: str, episodes: int) -> dict[str, float]:
    """In a Ray cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="rltf") as folder:
        config = config_of(args, judge, folder)
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
        tq.init(config.transfer_queue)
        options = {"max_concurrency": 100_000, "num_cpus": 0}
        pace = args.tokens, args.engine, args.steps
        sampler = Sampler.options(**options).remote(str(args.model), *pace)
        client = Client(config, sampler)
        worker = Worker.options(**options).remote(config, client, None, None)
        ray.get(worker.missing_episodes.remote())  # it is there
        batch = batch_of(Path(folder) / "data", episodes // GROUP, args.steps)
        result: dict[str, float] = ray.get(worker.measured.remote(batch))
        result["cpu_ms"] /= ray.get(sampler.answers.remote())
        keys = tq.kv_list()["train"]
        result["rows"] = sum("response_len" in tag for tag in keys.values())
        missing = ray.get(worker.missing_episodes.remote())
        assert result["rows"] >= 2 * episodes, result
        assert missing == 0, missing
        tq.close()
        ray.shutdown()
    return result


def main() -> None:
    """A line per number of episodes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, nargs="+", default=[256, 1000, 4000])
    parser.add_argument("--model", type=Path, default=TOKENIZER, help="its tokenizer is used")
    parser.add_argument("--tokens", type=int, default=256, help="of a usual answer")
    parser.add_argument("--engine", type=float, default=40_000, help="tokens per second")
    parser.add_argument("--steps", type=float, help="mean answers of a trajectory")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of the judge")
    parser.add_argument("--judge-calls", type=int, default=512, help="at once")
    parser.add_argument("overrides", nargs="*", help="settings of the run")
    args = parser.parse_args()
    command = [sys.executable, str(SERVER), "--latency", str(args.latency)]
    print("episodes  seconds  CPU ms  lag p50   p99   max  KB each  rows/s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for episodes in args.episodes:
            one = measure(args, url, episodes)
            rate = one["rows"] / one["seconds"]
            print(
                f"{episodes:8} {one['seconds']:8.1f} {one['cpu_ms']:7.2f} {one['p50']:8.3f}"
                f" {one['p99']:5.3f} {one['max']:5.3f} {one['kb']:8.1f} {rate:7.1f}",
                flush=True,
            )
        server.terminate()


if __name__ == "__main__":
    main()
