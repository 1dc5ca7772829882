"""Tokens per second of a language model on the CPU in fp32 and bf16, ours beside plain PyTorch:
`VERL_PLATFORM=cpu OMP_NUM_THREADS=1 python benchmarks/precision.py`.

Sampling (`rollout.name=transformers` beside batched `generate`), log-probs and an update (the
engine behind `rltf/hardware=cpu` beside a loop over padded rows of the same model), for one batch
of RLTF-SD: groups of 4, three rows per episode. The model has random weights, made on the spot in
the shape of SmolLM2-135M; speed does not depend on their values. Read the ratios of one run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import verl  # noqa: F401  loads the plugin, which adds the search path
from hydra import compose, initialize_config_module
from trainer_runs import TOKENIZER
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker

from rltf_verl.adapters.cpu.rollout.generation import BatchGenerator, Request
from rltf_verl.adapters.cpu.rollout.sampling import SamplingParams
from rltf_verl.adapters.queue.columns import ragged

SMOLLM2 = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
SHAPES = {"135m": SMOLLM2, "tiny": TINY}
PRECISIONS = {"fp32": ("cpu", torch.float32), "bf16": ("cpu_bf16", torch.bfloat16)}
GROUP, PROMPT, ANSWER, FEEDBACK = 4, 64, 40, 40

Row = tuple[torch.Tensor, torch.Tensor]
"""Prompt and response."""
Rates = dict[tuple[str, str], tuple[float, float]]
"""(work, precision) -> tokens per second of ours and of plain PyTorch."""


def save_model(folder: Path, shape: dict[str, Any]) -> None:
    """Random weights, with the demo's tokenizer for whoever asks for one."""
    shutil.copytree(TOKENIZER, folder)
    torch.manual_seed(0)
    config = LlamaConfig.from_pretrained(TOKENIZER, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)


def sd_rows(num_problems: int, vocab: int) -> list[Row]:
    """(x_0, y_1), (x_1, y_2) and (x_0, y_2) of each episode."""
    draw = torch.Generator().manual_seed(0)

    def ids(n: int) -> torch.Tensor:
        return torch.randint(5, vocab, (n,), generator=draw)

    rows = []
    for _ in range(num_problems):
        question = ids(PROMPT)
        for _ in range(GROUP):
            first, second = ids(ANSWER), ids(ANSWER)
            told = torch.cat([question, first, ids(FEEDBACK)])
            rows += [(question, first), (told, second), (question, second)]
    return rows


def make_worker(model: Path, hardware: str) -> Any:
    """verl's training worker on this process alone, with the engine of a hardware group."""
    overrides = [f"rltf/hardware={hardware}", f"actor_rollout_ref.model.path={model}"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("rltf", overrides)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    actor.model_config = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    engine = actor.engine
    engine.use_dynamic_bsz = True
    engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = (
        actor.ppo_max_token_len_per_gpu
    )
    worker = TrainingWorker(
        config=TrainingWorkerConfig(
            model_type="language_model",
            model_config=actor.model_config,
            engine_config=engine,
            optimizer_config=actor.optim,
            checkpoint_config=actor.checkpoint,
        )
    )
    worker.reset()
    return worker


def mean_log_prob(
    model_output: Any, data: Any, dp_group: Any
) -> tuple[torch.Tensor, dict[str, Any]]:
    """A loss of every token of a response."""
    return -model_output["log_probs"].values().sum() / 1000, {}


def of_engine(worker: Any, rows: Sequence[Row], *, update: bool) -> None:
    """One pass over all rows."""
    whole = [torch.cat(row) for row in rows]
    columns = {
        "prompts": [row[0] for row in rows],
        "responses": [row[1] for row in rows],
        "input_ids": whole,
        "position_ids": [torch.arange(len(ids)) for ids in whole],
        "loss_mask": [torch.ones_like(row[1]) for row in rows],
        "response_mask": [torch.ones_like(row[1]) for row in rows],
    }
    batch = tu.get_tensordict(
        {name: ragged(values) for name, values in columns.items()},
        {
            "temperature": 1.0,
            "use_dynamic_bsz": True,
            "max_token_len_per_gpu": worker.engine.engine_config.max_token_len_per_gpu,
        },
    )
    engine = worker.engine
    with engine.train_mode() if update else engine.eval_mode():
        if update:
            engine.optimizer_zero_grad()
        engine.forward_backward_batch(batch, mean_log_prob, forward_only=not update)


def of_pytorch(model: Any, rows: Sequence[Row], limit: int, *, update: bool) -> None:
    """The same with padded rows, as many in a micro-batch as fit under the same limit."""
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    size = max(limit // width, 1)
    with torch.set_grad_enabled(update):
        for i in range(0, len(rows), size):
            part = rows[i : i + size]
            ids = torch.zeros(len(part), width, dtype=torch.int64)
            mask = torch.zeros_like(ids)
            for j, row in enumerate(part):
                whole = torch.cat(row)
                ids[j, : len(whole)], mask[j, : len(whole)] = whole, 1
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
            said = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
            if update:
                (-(said * mask[:, 1:]).sum() / 1000).backward()
        model.zero_grad()


def sample_here(model: Any, prompts: Sequence[torch.Tensor]) -> None:
    """The generator of this package."""
    generator = BatchGenerator(model)
    for i, prompt in enumerate(prompts):
        params = SamplingParams(max_tokens=ANSWER, seed=i)
        generator.add(Request(str(i), prompt.tolist(), params))
    while generator.num_unfinished:
        generator.step()


def sample_there(model: Any, prompts: Sequence[torch.Tensor]) -> None:
    """transformers' `generate`, all prompts at once."""
    model.generate(
        torch.stack(list(prompts)), max_new_tokens=ANSWER, min_new_tokens=ANSWER, do_sample=True
    )


def rate(tokens: int, work: Callable[[], None], repeats: int) -> float:
    """Tokens per second, the best of some."""
    best = 0.0
    for _ in range(repeats + 1):  # the first makes kernels and memory
        start = time.perf_counter()
        work()
        best = max(best, tokens / (time.perf_counter() - start))
    return best


def measure(folder: Path, name: str, rows: Sequence[Row], repeats: int) -> Rates:
    """The rates of one precision."""
    hardware, dtype = PRECISIONS[name]
    prompts = [prompt for prompt, _ in rows[::3]]
    made, tokens = len(prompts) * ANSWER, sum(len(prompt) + len(answer) for prompt, answer in rows)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    worker = make_worker(folder, hardware)
    limit = int(worker.engine.engine_config.max_token_len_per_gpu)

    def of(tokens: int, here: Callable[[], None], there: Callable[[], None]) -> tuple[float, float]:
        return rate(tokens, here, repeats), rate(tokens, there, repeats)

    rates = {
        ("sampling", name): of(
            made, partial(sample_here, model, prompts), partial(sample_there, model, prompts)
        )
    }
    for work, update in (("log-probs", False), ("update", True)):
        here = partial(of_engine, worker, rows, update=update)
        there = partial(of_pytorch, model, rows, limit, update=update)
        rates[work, name] = of(tokens, here, there)
    return rates


def main() -> None:
    """Print one line per work and precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="135m")
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    os.environ.update(rank | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"})
    shape = SHAPES[args.shape]
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        save_model(Path(folder) / "model", shape)
        rows, rates = sd_rows(args.problems, shape["vocab_size"]), Rates()
        for name in PRECISIONS:
            rates |= measure(Path(folder) / "model", name, rows, args.repeats)
        dist.destroy_process_group()
    print(f"{args.shape}, {torch.get_num_threads()} threads, tokens/s, best of {args.repeats}")
    print(f"{'work':>10} {'':>5} {'ours':>8} {'PyTorch':>8} {'ratio':>6} {'bf16 / fp32':>12}")
    for (work, name), (ours, plain) in sorted(rates.items()):
        gain = f"{ours / rates[work, 'fp32'][0]:.1f}"
        print(f"{work:>10} {name:>5} {ours:>8.0f} {plain:>8.0f} {ours / plain:>6.2f} {gain:>12}")


if __name__ == "__main__":
    main()
