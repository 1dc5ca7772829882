"""What our workers add to verl's: weights beside the policy's, on a plain module, and a step that
is measured, on a plain optimiser.
"""

import math
from contextlib import suppress

import pytest
import ray
import torch
import verl.trainer.ppo.v1  # noqa: F401  # registers our trainers, which extend its classes
from ray import cloudpickle
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import ActorRolloutRefWorker

from rltf_verl.adapters.training.kept_weights import (
    KeepingWorker,
    KeptWeights,
    use_our_workers,
)
from rltf_verl.adapters.training.measured import MeasuringWorker

SHARE = 0.25


def module(dtype=torch.float32):
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).to(dtype)
    made[0].weight.requires_grad_(False)  # as what stands below an adapter
    return made


def move(policy):
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter += 1.0


def trained(policy):
    return {n: p.detach().clone() for n, p in policy.named_parameters() if p.requires_grad}


def test_the_average_follows_the_policy_and_the_first_weights_do_not():
    policy = module()
    first, ema, base = trained(policy), KeptWeights(policy, SHARE), KeptWeights(policy, 0.0)
    for _ in range(2):
        move(policy)
        ema.follow(policy)
    for name, value in first.items():
        # 0.75² v + 0.75 · 0.25 (v + 1) + 0.25 (v + 2)
        torch.testing.assert_close(ema.values[name], value + 0.1875 + 0.5)
        assert torch.equal(base.values[name], value)
    assert "0.weight" not in ema.values


def test_a_policy_has_them_within_and_its_own_afterwards_even_if_the_call_fails():
    policy = module()
    first, kept = trained(policy), KeptWeights(policy, 0.0)
    move(policy)
    own = trained(policy)

    with suppress(RuntimeError), kept.in_place(policy):
        assert all(torch.equal(first[n], v) for n, v in trained(policy).items())
        raise RuntimeError
    assert all(torch.equal(own[n], v) for n, v in trained(policy).items())


def test_an_average_of_bfloat16_weights_does_not_stand_still():
    policy = module(torch.bfloat16)
    kept, first = KeptWeights(policy, 1e-3), trained(policy)
    move(policy)
    kept.follow(policy)
    assert all(not torch.equal(kept.values[n], v.float()) for n, v in first.items())


def test_an_average_outlives_its_process_and_a_checkpoint_without_one_is_refused(tmp_path):
    policy = module()
    kept = KeptWeights(policy, SHARE)
    move(policy)
    kept.follow(policy)
    kept.save(tmp_path / "kept.pt")
    later = KeptWeights(policy, SHARE)
    later.load(tmp_path / "kept.pt")
    assert all(torch.equal(later.values[n], v) for n, v in kept.values.items())
    with pytest.raises(FileNotFoundError, match=r"holds no average.*kind=ema"):
        later.load(tmp_path / "none.pt")
    KeptWeights(policy, 0.0).load(tmp_path / "none.pt")  # it is the model's own files


def test_verls_worker_makes_an_actor_that_keeps_weights_and_travels_to_ray():
    classes = {Role.ActorRollout: ray.remote(ActorRolloutRefWorker)}
    use_our_workers(classes, SHARE)
    worker = classes[Role.ActorRollout].__ray_actor_class__
    arrived = cloudpickle.loads(cloudpickle.dumps(worker))
    make = object.__new__(arrived).actor_worker_cls  # as verl's `init_model` reads it
    assert (make.func, make.keywords) == (KeepingWorker, {"share": SHARE})


RATE = 0.5


class Engine:
    """An optimiser, and what verl's engines do with it."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.zeros(64))
        self.optimizer = torch.optim.SGD([self.weight], lr=RATE)

    def initialize(self):
        pass

    def optimizer_step(self):
        self.weight.grad = torch.ones(64)
        self.optimizer.step()
        return 8.0


def measuring_worker():
    made = object.__new__(MeasuringWorker)
    made.engine = Engine()
    made.reset()
    return made


def test_a_step_is_as_long_as_the_weights_moved_and_the_rate_is_the_users():
    made = measuring_worker()
    assert made.engine.optimizer_step() == 8.0
    torch.testing.assert_close(made.engine.weight.detach(), torch.full((64,), -RATE))
    assert made._moved == pytest.approx(8 * RATE)  # √64 weights that moved alike


def test_the_gradients_norm_is_compared_with_those_before():
    made = measuring_worker()
    ratios = []
    for norm in (2.0, math.inf, 4.0, 2.2):  # verl leaves the second update out
        made._compare(norm)
        ratios.append(made._norm_ratio)
    assert ratios == pytest.approx([1.0, math.inf, 2.0, 1.0])
