"""One rank of a real engine: verl's training worker, the teacher's call and one backward with our
loss. With `rltf.logit_distill.weight=0` there is no teacher.

`python -m tests.support.engine.engine_rank out.pt key=value …`, with torch's RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT in the environment. Rank 0 saves the rows, the teacher's columns and
the gradients.
"""

import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker

from rltf_verl.adapters.queue.columns import ROLE, ragged
from rltf_verl.adapters.training.logit_loss import (
    NUM_TOKENS,
    TEACHER_IDS,
    TEACHER_LOG_PROB,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
    TEACHER_WEIGHTS,
    WEIGHT,
    loss_with_logits,
)
from rltf_verl.adapters.training.loss import DENOMINATOR, rltf_loss
from rltf_verl.adapters.training.teacher import TeacherInput, teacher_batch
from rltf_verl.config import RLTFConfig
from rltf_verl.cpu.actor.engine import CPUEngine
from rltf_verl.objectives import Method

LENGTHS = [(5, 2, 7), (17, 7, 1), (0, 6, 12), (9, 3, 4), (0, 5, 8), (4, 4, 6)]
"""Lengths of (x_1, x_0, y) of each row; rows without x_1 have no teacher."""
TEMPERATURE, LOGIT_WEIGHT, NUM_EPISODES = 0.7, 2.5, 10.0


def make_rows():
    generator = torch.Generator().manual_seed(0)
    ids = lambda n: torch.randint(4, 100, (n,), generator=generator)  # noqa: E731
    prompt = ids(max(b for _, b, _ in LENGTHS))  # rows share their first tokens
    return [
        {"x1": ids(a), "x0": prompt[:b], "y": ids(c), "advantage": (-0.5) ** i}
        for i, (a, b, c) in enumerate(LENGTHS)
    ]


def make_worker(config, kind=TrainingWorker):
    model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    actor.model_config = model
    settings = TrainingWorkerConfig(
        model_type="language_model",
        model_config=model,
        engine_config=actor.engine,
        optimizer_config=actor.optim,
        checkpoint_config=actor.checkpoint,
    )
    engine = settings.engine_config
    engine.use_dynamic_bsz = actor.use_dynamic_bsz
    engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = (
        actor.ppo_max_token_len_per_gpu
    )
    engine.micro_batch_size_per_gpu = engine.infer_micro_batch_size_per_gpu = (
        actor.ppo_micro_batch_size_per_gpu
    )
    worker = kind(config=settings)
    worker.reset()
    rltf = RLTFConfig.from_mapping(OmegaConf.to_container(config.rltf, resolve=True))
    loss = partial(rltf_loss, actor, Method(rltf))
    if rltf.logit_distill.reads_logits:
        loss = partial(loss_with_logits, loss, rltf.logit_distill)
    worker.set_loss_fn(loss)
    return worker, engine, rltf.logit_distill


def ask(worker, rows, asked, **settings):
    """Every row's teacher columns, as the trainer would get them from all ranks; empty without a
    teacher.
    """
    world, asked_of = dist.get_world_size(), [i for i, row in enumerate(rows) if len(row["x1"])]
    inputs = [TeacherInput(i, 0, rows[i]["x1"], rows[i]["y"], torch.zeros(0)) for i in asked_of]
    batch = teacher_batch(inputs, multiple=2 * world, temperature=TEMPERATURE, asked=asked)
    tu.assign_non_tensor(batch, **settings)
    mine = worker.infer_batch(tu.chunk_tensordict(batch, world)[dist.get_rank()])
    parts = [None] * world
    names = (TEACHER_IDS, TEACHER_LOG_PROBS) if asked.reads_logits else ("log_probs",)
    answers = zip(*(mine[name].unbind() for name in names), strict=True)
    dist.all_gather_object(parts, list(answers))
    said = dict(zip(asked_of, [answer for part in parts for answer in part], strict=False))
    if not asked.reads_logits:
        said = {i: (own[len(rows[i]["x1"]) - 1 : -1],) for i, (own,) in said.items()}
    empty = tuple(column[:0] for column in said[asked_of[0]])
    return [said.get(i, empty) for i in range(len(rows))]


def update_batch(rows, said, asked):
    whole = [torch.cat([row["x0"], row["y"]]) for row in rows]
    like_y = lambda value, dtype: [torch.full_like(r["y"], value(r), dtype=dtype) for r in rows]  # noqa: E731
    tensors = {
        "prompts": [row["x0"] for row in rows],
        "responses": [row["y"] for row in rows],
        "input_ids": whole,
        "position_ids": [torch.arange(len(ids)) for ids in whole],
        "loss_mask": like_y(lambda r: 1, torch.int64),
        "response_mask": like_y(lambda r: 1, torch.int64),
        ROLE: like_y(lambda r: 0, torch.int64),
        "advantages": like_y(lambda r: r["advantage"], torch.float32),
        "old_log_probs": like_y(lambda r: -1.0, torch.float32),
    }
    settings = {
        "temperature": TEMPERATURE,
        "distillation_use_topk": asked.reads_logits,
        "calculate_entropy": not asked.enabled,
        DENOMINATOR: NUM_EPISODES,
    }
    if asked.enabled:
        names = (TEACHER_IDS, TEACHER_LOG_PROBS) if asked.reads_logits else (TEACHER_LOG_PROB,)
        tensors |= dict(zip(names, map(list, zip(*said, strict=True)), strict=True))
        lengths = [len(first) for first, *_ in said]
        tensors[TEACHER_PLACES] = [torch.arange(n) for n in lengths]
        tensors[TEACHER_WEIGHTS] = [
            torch.full((n,), float(1 + i % 2)) for i, n in enumerate(lengths)
        ]
        settings |= {WEIGHT: LOGIT_WEIGHT, NUM_TOKENS: float(sum(lengths))}
    columns = {name: ragged(values) for name, values in tensors.items()}
    images = [{} for _ in rows]  # as verl's own agent loops put beside text
    return tu.get_tensordict(columns | {"multi_modal_inputs": images}, settings)


def run_rank(record_of):
    """Save what the function makes of the command line's config and file, on rank 0, and end."""
    out, *overrides = sys.argv[1:]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("rltf", ["rltf/method=teacher/sd_logit", *overrides])
    record = record_of(config, Path(out))
    if dist.get_rank() == 0:
        torch.save(record, out)
    dist.barrier()
    dist.destroy_process_group()


def record_of(config, _):
    worker, engine, asked = make_worker(config)
    rows = make_rows()
    said = ask(worker, rows, asked) if asked.enabled else []
    batch = update_batch(rows, said, asked)
    mine = tu.chunk_tensordict(batch, dist.get_world_size())[dist.get_rank()]
    tu.assign_non_tensor(
        mine,
        use_remove_padding=engine.use_remove_padding,
        use_dynamic_bsz=engine.use_dynamic_bsz,
        max_token_len_per_gpu=engine.max_token_len_per_gpu,
        micro_batch_size_per_gpu=engine.micro_batch_size_per_gpu,
        use_fused_kernels=False,
    )
    with worker.engine.train_mode():
        worker.engine.optimizer_zero_grad()
        output = worker.engine.forward_backward_batch(mine, worker.loss_fn, forward_only=False)
        grads = {name: p.grad.full_tensor() for name, p in worker.engine.module.named_parameters()}
    metrics, outputs = [None] * dist.get_world_size(), [None] * dist.get_world_size()
    told = output["metrics"].get("rltf/logit_distill/divergence")
    dist.all_gather_object(metrics, told.values if told else None)
    if not asked.enabled:
        with worker.engine.eval_mode():
            output_only = worker.engine.forward_backward_batch(mine, None, forward_only=True)
        own = {name: list(v.unbind()) for name, v in output_only["model_output"].items()}
        dist.all_gather_object(outputs, own)
    return {
        "rows": rows,
        "said": said,
        "grads": grads,
        "divergence": metrics,
        "micro": len(output["loss"]),
        "outputs": outputs,
        "shared": isinstance(worker.engine, CPUEngine) and worker.engine._fits(mine),
    }


if __name__ == "__main__":
    run_rank(record_of)
