"""The path of a GPU run, as far as a CPU can take it: verl's own packed forward with our loss on
two ranks, eight agent workers, the queue of `rltf/hardware=gpu`; compared with plain PyTorch on the
rows that it recorded.

The rollout is the CPU engine's in fp32; vLLM's has tests of its own (mark `vllm`). Logit
distillation by the same engine: tests/adapters/training/test_logit_engine_e2e.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from omegaconf import OmegaConf

from tests.e2e import recorded, runs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
ROLE, STEPS = "actor_rollout_ref", 2
UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
GPU = OmegaConf.load(runs.ROOT / "hydra_configs/rltf_verl/rltf/hardware/gpu.yaml")
AS_ON_GPUS = [
    f"{runs.MODE}sync",
    "trainer.n_gpus_per_node=2",
    f"{ROLE}.actor.strategy=fsdp2",
    f"{ROLE}.model.use_remove_padding=true",
    f"{ROLE}.model.enable_gradient_checkpointing=true",
    f"{ROLE}.actor.ppo_max_token_len_per_gpu=512",
    f"{ROLE}.rollout.agent.num_workers=8",
    "reward.num_workers=0",
    f"{UNITS}={OmegaConf.select(GPU, UNITS)}",
    f"trainer.total_training_steps={STEPS}",
    "trainer.save_freq=1",
]
EXACT, GRADIENT = 5e-4, 1e-5
"""Nats of a token; of the gradient of a weight."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Of the plain forwards, beside the runs of other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_step_of_verl_s_packed_engine_is_plain_pytorch_s(tmp_path, data: dict[str, str]) -> None:
    settings = [*runs.RECORDED, *AS_ON_GPUS]
    run = runs.start(tmp_path / "run", data, settings, recorder="gpu_engine,recorder")
    run.finished(recorded.TIMEOUT)
    assert (run.folder / "record" / "packed.fsdp2").exists()
    assert all(step["actor/grad_norm"] > 0 for step in run.training_steps(STEPS))
    require_plain_steps(run)


def require_plain_steps(run: runs.Run) -> None:
    """Log-probs of the actor and of the sampler, and the update of the weights, at each step."""
    for step in range(1, STEPS + 1):
        rows, policy = recorded.rows(run, step), recorded.policy(run.folder, step - 1)
        with torch.no_grad():
            olds = recorded.log_probs(policy, rows)
        for row, old in zip(rows, olds, strict=True):
            assert (old - row["old_log_probs"]).abs().max() < EXACT
            if recorded.sampled(row).any():
                assert recorded.sampler_gap(policy, row).max() < EXACT
        taken, plain = recorded.step_taken(run, step), recorded.gradient(run, step)
        assert recorded.largest_difference(taken, plain) < GRADIENT
        assert max(float(gradient.abs().max()) for gradient in plain.values()) > 1000 * GRADIENT
