"""The actor's loss on verl's own nested batches against plain PyTorch on the same rows, and where
the sampler's log-probs may stand for a pass of the actor.
"""

import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import assign_non_tensor

from rltf_verl.adapters.startup.rules import TOKEN_SUM_LOSSES
from rltf_verl.adapters.training.loss import DENOMINATOR, rltf_loss
from rltf_verl.adapters.training.step import (
    BEYOND_ADVANTAGES,
    may_leave_unscored,
    may_reuse_log_probs,
    skips_idle_rows,
)
from rltf_verl.config import DistillConfig, FeedbackModelingConfig, ImitateConfig, RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import VERL_REDUCES
from rltf_verl.types import CONTEXT, Role
from tests.support.configs import composed

A, D, C, F, M = (
    int(r)
    for r in (Role.ATTEMPT, Role.DISTILL, Role.CRITIQUE, Role.FEEDBACK_MODELING, Role.IMITATE)
)
N = CONTEXT
# prompt length, role of each response token
ROWS = [
    (3, [A, A, N, F, A]),
    (2, [D, D, D]),
    (4, [A]),
    (1, [D, N, D, D]),
    (2, [C, C]),
    (3, [F, F]),
    (2, [M, M, M]),
]
PADDING = (6, [N])
"""As verl makes them: a response of one token that is masked. It copies the first row's roles."""
TOKEN_FIELDS = ("old_log_probs", "advantages", "ref_log_prob")
DP, DEN = 2, 12.0


def objectives(distill):
    """Every role switched on; the weights themselves stand in the advantages."""
    return RLTFConfig(
        distill=distill,
        feedback_modeling=FeedbackModelingConfig(weight=0.1),
        imitate=ImitateConfig(weight=0.1),
    )


CURRENT = objectives(DistillConfig(weight=0.1))


class Batch:
    """Rows with random log-probs, and leaves to take gradients by."""

    def __init__(self, rows, seed=0):
        generator = torch.Generator().manual_seed(seed)
        rand = lambda n: torch.randn(n, generator=generator, dtype=torch.float64)  # noqa: E731
        self.rows = rows
        self.log_probs = [(-1 + 0.3 * rand(p + len(m))).requires_grad_() for p, m in rows]
        self.entropies = [rand(p + len(m)).abs().requires_grad_() for p, m in rows]
        self.fields = {
            "old_log_probs": [-1 + 0.3 * rand(len(m)) for _, m in rows],
            "advantages": [rand(len(m)) for _, m in rows],
            "ref_log_prob": [-1 + 0.3 * rand(len(m)) for _, m in rows],
        }

    def data(self, pick):
        nested = lambda values: torch.nested.as_nested_tensor(values, layout=torch.jagged)  # noqa: E731
        rows = [self.rows[i] for i in pick]
        data = TensorDict(
            {
                "prompts": nested([torch.ones(p, dtype=torch.int64) for p, _ in rows]),
                "responses": nested([torch.ones(len(m), dtype=torch.int64) for _, m in rows]),
                "response_mask": nested([torch.tensor([int(r != N) for r in m]) for _, m in rows]),
                "rltf_role": nested([torch.tensor(ROWS[0][1] if m == [N] else m) for _, m in rows]),
                **{name: nested([values[i] for i in pick]) for name, values in self.fields.items()},
            },
            batch_size=len(rows),
        )
        assign_non_tensor(data, **{"dp_size": DP, DENOMINATOR: DEN})
        return data

    def loss(self, config, rltf, pick=None):
        pick = range(len(self.rows)) if pick is None else pick
        output = {
            "log_probs": torch.nested.as_nested_tensor(
                [self.log_probs[i] for i in pick], layout=torch.jagged
            ),
            "entropy": torch.nested.as_nested_tensor(
                [self.entropies[i] for i in pick], layout=torch.jagged
            ),
        }
        method, data = Method(rltf), self.data(pick)
        with torch.device("meta"):  # every tensor names its device: a GPU's worker has another one
            return rltf_loss(config, method, output, data)

    def grads(self, loss):
        leaves = [*self.log_probs, *self.entropies]
        grads = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]

    def reference(self, config, distill, token_loss):
        """Token by token, from the definition."""
        total = torch.zeros((), dtype=torch.float64)
        for i, (prompt, roles) in enumerate(self.rows):
            for t, role in enumerate(roles):
                if role == N:
                    continue
                # the log-prob of response token t is the model's output one position before it
                log_prob, entropy = (
                    self.log_probs[i][prompt + t - 1],
                    self.entropies[i][prompt + t - 1],
                )
                old, adv, ref = (self.fields[name][i][t] for name in TOKEN_FIELDS)
                if role in (F, M):
                    total = total - adv * log_prob
                    continue
                if role == D:
                    ratio = torch.exp(
                        log_prob - (log_prob.detach() if distill.reference == "current" else old)
                    )
                    total = total - ratio * adv
                    continue
                total = total + token_loss(log_prob, old, adv)
                total = total - config.entropy_coeff * entropy
                if config.use_kl_loss:
                    total = total + config.kl_loss_coef * (log_prob - ref)
        return total * DP / DEN


def importance_sampling(log_prob, old, adv):
    return -torch.exp(log_prob - old) * adv


def vanilla(log_prob, old, adv):
    """PPO with verl's dual clip: bounds 0.8, 1.2 and 3."""
    ratio = torch.exp(log_prob - old)
    clipped = torch.maximum(-adv * ratio, -adv * ratio.clamp(0.8, 1.2))
    return torch.minimum(-adv * 3.0, clipped) if adv < 0 else clipped


@pytest.fixture
def actor(verl_config):
    def make(*overrides):
        prefixed = [f"actor_rollout_ref.actor.{o}" for o in overrides]
        return omega_conf_to_dataclass(verl_config(*prefixed).actor_rollout_ref.actor)

    return make


EXTRAS = ("entropy_coeff=0.02", "use_kl_loss=true", "kl_loss_coef=0.03", "kl_loss_type=kl")


def close(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.double(), e.double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("extras", [(), EXTRAS], ids=["plain", "entropy and KL"])
@pytest.mark.parametrize("reference", ["current", "old"])
@pytest.mark.parametrize(
    ("mode", "token_loss"), [("importance_sampling", importance_sampling), ("vanilla", vanilla)]
)
def test_loss_and_gradient_equal_plain_pytorch(actor, mode, token_loss, reference, extras):
    config, batch = actor(f"policy_loss.loss_mode={mode}", *extras), Batch(ROWS)
    distill = DistillConfig(weight=0.1, reference=reference)
    loss, _ = batch.loss(config, objectives(distill))
    expected = batch.reference(config, distill, token_loss)
    close([loss], [expected])
    close(batch.grads(loss), batch.grads(expected))


@pytest.mark.parametrize(
    "parts", [[[i] for i in range(7)], [[1, 3, 5], [0, 2, 4, 6]], [[4, 0, 3], [2, 1, 6, 5]]]
)
def test_micro_batches_add_up_to_the_whole(actor, parts):
    """Some of the micro-batches lack a role."""
    config, batch = actor(*EXTRAS), Batch(ROWS)
    whole, metrics = batch.loss(config, CURRENT)
    splits = [batch.loss(config, CURRENT, part) for part in parts]
    close([sum(loss for loss, _ in splits)], [whole])
    close(batch.grads(sum(loss for loss, _ in splits)), batch.grads(whole))
    for name in [n for n in metrics if n.endswith(("loss", "grad"))]:
        added = sum(m[name].aggregate() for _, m in splits)
        assert added == pytest.approx(metrics[name].aggregate(), abs=1e-6)
    parts_of_loss = sum(metrics[n].aggregate() for n in metrics if n.endswith("loss"))
    assert parts_of_loss == pytest.approx(whole.item(), abs=1e-6)


def test_gradients_of_the_roles_are_those_of_their_tokens(actor):
    config, batch = actor(*EXTRAS), Batch(ROWS)
    loss, metrics = batch.loss(config, CURRENT)
    grads = batch.grads(loss)
    names = {A: "attempt", D: "distill", C: "critique", F: "feedback_modeling", M: "imitate"}
    for role, name in names.items():
        own = sum(
            float(
                (
                    grads[i][prompt - 1 : -1].abs()
                    * torch.tensor([float(r == role) for r in roles])
                ).sum()
            )
            for i, (prompt, roles) in enumerate(ROWS)
        )
        assert metrics[f"rltf/{name}/grad"].aggregate() == pytest.approx(own, abs=1e-6)
        assert own > 0
    # verl sums or takes extremes of metrics by a substring of their name: ours are averaged
    for name in metrics:
        assert not any(word in name.removesuffix("/max") for word in VERL_REDUCES), name


def test_padding_rows_contribute_exactly_nothing(actor):
    config, batch = actor(*EXTRAS), Batch([*ROWS, PADDING, PADDING])
    loss, _ = batch.loss(config, CURRENT, range(len(ROWS)))
    padded_loss, _ = batch.loss(config, CURRENT)
    assert loss.item() == padded_loss.item()
    grads = batch.grads(padded_loss)
    for i in range(len(ROWS), len(batch.rows)):
        assert not grads[i].any()
        assert not grads[len(batch.rows) + i].any()
    only_padding, _ = batch.loss(config, CURRENT, [len(ROWS)])
    assert only_padding.item() == 0.0
    assert not any(g.any() for g in batch.grads(only_padding))


def test_rows_without_advantages_have_no_gradient_wherever_the_update_leaves_them_out(actor):
    """In every policy loss, at ratios that have moved; so a loss of verl that changes is noticed.
    The others keep their gradient without them.
    """
    idle = (0, 2, 3, 5)
    live = [i for i, _ in enumerate(ROWS) if i not in idle]
    skipped = []
    for mode in TOKEN_SUM_LOSSES:
        beta = ["policy_loss.dro_beta=0.1"] if mode == "dro" else []
        config, batch = actor(f"policy_loss.loss_mode={mode}", *beta), Batch(ROWS)
        for i in idle:
            batch.fields["advantages"][i] = torch.zeros_like(batch.fields["advantages"][i])
        whole = batch.grads(batch.loss(config, CURRENT)[0])
        if not skips_idle_rows(config):
            assert mode != "dro" or any(whole[i].any() for i in idle), "it pulls at all tokens"
            continue
        assert not any(whole[i].any() for i in idle), mode
        close(batch.grads(batch.loss(config, CURRENT, live)[0]), whole)
        skipped.append(mode)
    assert set(TOKEN_SUM_LOSSES) - set(skipped) == BEYOND_ADVANTAGES
    for words in ("entropy_coeff=0.02",), ("use_kl_loss=true", "kl_loss_coef=0.03"):
        assert not skips_idle_rows(actor(*words))


def test_importance_weights_of_rollout_correction_scale_what_the_policy_sampled(actor):
    config, batch = actor(), Batch(ROWS)
    plain = batch.grads(batch.loss(config, CURRENT)[0])
    batch.fields["rollout_is_weights"] = [
        torch.full((len(roles),), 0.25, dtype=torch.float64) for _, roles in ROWS
    ]
    weighted = batch.grads(batch.loss(config, CURRENT)[0])
    for i, (prompt, roles) in enumerate(ROWS):
        factor = torch.tensor([0.25 if r in (A, C) else 1.0 for r in roles], dtype=torch.float64)
        close([weighted[i][prompt - 1 : -1]], [plain[i][prompt - 1 : -1] * factor])


CPU = "rltf/hardware=cpu"
ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


@pytest.mark.parametrize(
    ("preset", "overrides", "reused", "skipped"),
    [
        ("rltf_grpo_single", [CPU], True, True),
        ("rltf_grpo", [CPU], True, True),
        ("rltf_sd", [CPU], False, True),  # a distilled answer was sampled under another prompt
        ("rltf_fm", [CPU], False, True),
        ("rltf_grpo_single", [], False, True),
        ("rltf_grpo_single", ["rltf/hardware=cpu_bf16"], False, True),
        ("rltf_grpo_single", ["rltf/hardware=cpu_vllm"], False, True),
        ("rltf_grpo_single", [CPU, "rltf.updates_per_batch=2"], False, True),
        ("rltf_grpo_single", [CPU, f"{ACTOR}.ppo_epochs=2"], False, True),
        ("rltf_grpo_single", [CPU, f"{ROLLOUT}.top_p=0.9"], False, False),
        ("rltf_grpo_single", [CPU, "algorithm.rollout_correction.rollout_is=token"], False, False),
        ("rltf_fm", ["rltf/hardware=cpu_bf16", f"{ACTOR}.ppo_epochs=2"], False, True),
        ("rltf_grpo", [CPU, f"{ACTOR}.use_kl_loss=True"], True, False),  # pulls at every row
        ("rltf_grpo", [CPU, f"{ACTOR}.entropy_coeff=0.01"], True, False),
        # asks for the gap to the actor
        ("rltf_grpo", [CPU, "rltf/method=teacher/sdpo"], False, False),
    ],
)
def test_which_log_probs_are_reused_or_left_out(preset, overrides, reused, skipped):
    """Those of one exact update of sampled rows; of rows that train nothing, where nothing else
    reads them.
    """
    config = composed(preset, *overrides)
    rltf = RLTFConfig.from_mapping(OmegaConf.to_container(config.rltf))
    assert may_reuse_log_probs(config, Method(rltf)) is reused
    assert may_leave_unscored(config, rltf) is skipped
