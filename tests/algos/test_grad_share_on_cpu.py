"""Coefficients from shares of the gradient, by hand on the golden case."""

from dataclasses import replace

import pytest
import torch

from rltf_verl.config import AttemptConfig, DistillConfig, ImitateConfig, RLTFConfig, ScheduleConfig
from rltf_verl.config.objectives import Loss
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.objectives.targets import compute_targets, gradient_masses, shared_targets
from rltf_verl.types import Role
from tests.support.golden_batch import batch
from tests.support.methods import ONLY, targets_of

ATTEMPTS = (
    2 * 2 / 3
    + 3 * 0.7 / 3
    + 4 * 0.5
    + 2 * 1.3 / 3
    + 2 * 0.5
    + 2 * 0.11 / 3
    + 3 * 0.1 / 3
    + 0.11 / 3
    + 0.1 / 3
    + 2 * 0.22 / 3
    + 2 * 0.2 / 3
)
"""Σ |A_t| over the tokens of the attempts, as test_targets_on_cpu.py lists them."""
DISTILLED = 3 * 0.7 + 0.3 + 2 * 3.1 / 3 + 2 * 2.8 / 3
"""Σ |a_t| of the distilled tokens at coefficient 1; four are below the floor."""
IMITATED = 10.0
"""Tokens of right last answers."""


def settings(distill=0.25, imitate=None, weight=0.1, **attempt):
    return RLTFConfig(
        attempt=AttemptConfig(**attempt),
        distill=DistillConfig(weight=weight, grad_share=distill),
        imitate=ImitateConfig(weight=0.1, grad_share=imitate),
    )


def shared(config, step=0, num_steps=1, trust=None, packed=None):
    """The batch, its targets, and the coefficients in them."""
    method, now = Method(config), Now(step, num_steps)
    packed = batch(config) if packed is None else packed
    weights, shares = method.weights(now), method.shares(now)
    return packed, *shared_targets(packed, method, weights, shares, trust=trust)


def share(packed, targets, config, name, trust=None):
    pulls = gradient_masses(packed, targets, Method(config), trust)
    return pulls[name] / sum(pulls.values())


@pytest.mark.parametrize(
    ("config", "trust", "expected", "shares"),
    [
        # imitation keeps its weight of 0.1, so w = 0.25 / 0.75 · (P_attempt + 0.1 · 10) / P_distill
        (
            settings(),
            1.0,
            {
                "distill": (ATTEMPTS + 0.1 * IMITATED) / 3 / DISTILLED,
                "attempt": 1.0,
                "imitate": 0.1,
            },
            {"distill": 0.25},
        ),
        (
            settings(0.25, 0.5),
            1.0,
            {"distill": ATTEMPTS / DISTILLED, "imitate": 2 * ATTEMPTS / IMITATED},
            {"imitate": 0.5},
        ),
        # weights of rollout correction are part of the pull
        (
            settings(),
            0.5,
            {"distill": (ATTEMPTS / 2 + 0.1 * IMITATED) / 3 / DISTILLED},
            {"distill": 0.25},
        ),
    ],
)
def test_shares_by_hand(config, trust, expected, shares):
    packed = batch(config)
    trust = torch.where(packed.tokens(Role.ATTEMPT), trust, 1.0)
    _, targets, weights = shared(config, trust=trust, packed=packed)
    assert {name: weights[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    for name, value in shares.items():
        assert share(packed, targets, config, name, trust) == pytest.approx(value, abs=1e-6)
    same = compute_targets(packed, Method(config), weights)
    torch.testing.assert_close(targets.advantages, same.advantages)


@pytest.mark.parametrize(
    "distill",
    [
        {"reference": "sampler", "loss": Loss("ppo")},
        {"reference": "sampler", "loss": Loss("cispo")},
        {"reference": "sampler"},
        {"reference": "old", "loss": Loss("ppo")},
        {"loss": Loss("shaped")},
        {"log_prob_floor": None},
        {"floor": "soft"},
    ],
)
def test_the_pull_is_that_of_the_loss_which_the_objective_has(distill):
    """Ratios, clipping and shaping included: the gradient at π_old, here by differences."""
    config = RLTFConfig(distill=DistillConfig(**{"weight": 1.0, **distill}))
    packed = batch(config)
    targets = targets_of(packed, config)
    tokens = packed.tokens(Role.DISTILL)
    log_prob, ref, a = (
        packed.old_log_probs.double(),
        targets.ref_log_probs.double(),
        targets.advantages.double(),
    )
    ratio = (log_prob - ref).exp()
    expected = {
        "importance_sampling": ratio * a,
        "cispo": ratio.clamp(0.8, 1.2) * a,
        "ppo": torch.where((ratio.clamp(0.8, 1.2) * a < ratio * a), 0.0, ratio * a),
        "shaped": 0.1 * log_prob.exp() / (log_prob.exp() + 0.1) ** 2 * a,
    }[config.distill.loss.name]
    pull = gradient_masses(packed, targets, Method(config))["distill"]
    assert pull == pytest.approx(expected[tokens].abs().sum().item(), rel=1e-4)
    assert pull > 0


def test_where_attempts_have_no_gradient_the_weight_itself_is_used():
    """Groups of one: no attempt has an advantage, and no coefficient makes a quarter of nothing
    else.
    """
    config = RLTFConfig(distill=DistillConfig(weight=0.3, grad_share=0.25))
    alone = batch(config, group=list(range(6)))
    packed, targets, weights = shared(config, packed=alone)
    assert weights["distill"] == 0.3
    assert torch.equal(
        targets.advantages, compute_targets(packed, Method(config), weights).advantages
    )


def test_a_role_without_a_gradient_takes_no_share_from_the_others():
    """Every answer wrong: nothing to imitate, and distillation still has its quarter."""
    config = settings(0.25, 0.5)
    packed = batch(config)
    wrong = replace(packed.episodes, correct=torch.zeros_like(packed.episodes.correct))
    packed, targets, weights = shared(config, packed=replace(packed, episodes=wrong))
    assert weights["imitate"] == 0.1
    assert share(packed, targets, config, "distill") == pytest.approx(0.25, abs=1e-6)


def test_a_share_ramps_on_the_schedule():
    distill = DistillConfig(weight=0.1, grad_share=(0.0, 0.4))
    config = RLTFConfig(distill=distill, schedule=ScheduleConfig(start_step=2, ramp_steps=7))
    for step, expected in ((0, 0.0), (1, 0.0), (2, 0.0), (4, 0.2), (6, 0.4), (50, 0.4)):
        packed, targets, _ = shared(config, step, 100)
        assert share(packed, targets, config, "distill") == pytest.approx(expected, abs=1e-6)


def test_without_a_share_nothing_changes():
    config = settings(None)
    packed, targets, weights = shared(config)
    assert weights == Method(config).weights(ONLY)
    assert torch.equal(
        targets.advantages, compute_targets(packed, Method(config), weights).advantages
    )
