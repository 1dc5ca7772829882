"""A user's own objective and baseline, `docs/examples/unlearn.py`, by what training calls."""

import math
import pickle
import re

import numpy as np
import pytest
import torch

from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.objectives import Method, Objective
from rltf_verl.objectives.dry_run import own_failures
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.objectives.user_code import OwnCodeError
from tests.support.episode_rows import episode, turn
from tests.support.methods import ONLY, objective_of, targets_of
from tools.parity.pack import pack_episodes, pack_rows

FILE = "docs/examples/unlearn.py"
UNLEARN = {"objectives": {"unlearn": f"{FILE}:Unlearn"}}
PUT_RIGHT = episode(turn([1, 2], [3, 4], 0.0), turn([1, 9], [5, 6, 7], 1.0))
RIGHT = episode(turn([1, 2], [5, 6], 1.0))


class Sampled(Objective):
    """What verl's policy loss would train, and does not."""

    sampled = True


class Raises(Objective):
    """What fails where a run asks."""

    async def rows(self, policy, messages, episode):
        return {}[episode.session_id]


class Table(Objective):
    """It has numbers of another form."""

    def turn_weights(self, episodes):
        return episodes.rewards[:, 0]


class Sum(Objective):
    """A loss of each token."""

    def loss(self, log_prob, ref_log_probs, weights, mask):
        return -log_prob * weights


def flat(episodes):
    return episodes.rewards.mean(1)


def nothing(episodes):
    episodes.rewards.mean(1)


def by_std(episodes):
    size = len(episodes.rewards) // episodes.num_groups
    first = episodes.rewards[:, 0].view(-1, size)
    return (first / (first.std(1, keepdim=True))).view(-1, 1)


def by_name(episodes):
    return {}["returns"]


def array(episodes):
    return np.zeros((len(episodes.rewards), 1))


def read(**blocks):
    feedback = {"provider": "verifier", "level": "full"}
    return RLTFConfig.from_mapping(
        {"env": {"name": "binary_matrix"}, "feedback": feedback, **blocks}
    )


async def trained_on(config):
    played, method = [PUT_RIGHT, RIGHT], Method(config)
    made = [await episode_rows(None, (), one, method) for one in played]
    rows, session = [r for own in made for r in own], [s for s in (0, 1) for _ in made[s]]
    old = [[-0.5] * len(row.role) for row in rows]
    batch = pack_rows(rows, session, pack_episodes(played, [0, 0]), old)
    return rows, batch, targets_of(batch, config)


async def test_its_rows_weights_and_loss():
    config = read(**UNLEARN, unlearn={"weight": 0.2})
    method = Method(config)
    own = method.objectives[-1]
    rows, batch, targets = await trained_on(config)
    (row,) = [row for row in rows if row.role[0] == own.role]
    assert (row.prompt_ids, row.response_ids, row.turn) == ((1, 2), (3, 4), (0, 0))
    assert method.role_names[own.role] == "unlearn"
    mask = batch.tokens(own.role)
    assert targets.advantages[mask].tolist() == pytest.approx([0.2, 0.2])
    log_prob = batch.old_log_probs.clone().requires_grad_()
    loss = own.loss(log_prob, targets.ref_log_probs, targets.advantages, mask)
    assert loss.item() == pytest.approx(-2 * 0.2 * math.log(1 - math.exp(-0.5)))
    (gradient,) = torch.autograd.grad(loss, log_prob)
    assert torch.equal(gradient != 0, mask)


async def test_switched_off_it_makes_no_rows():
    rows, _, _ = await trained_on(read(**UNLEARN, unlearn={"weight": 0}))
    assert {r for row in rows for r in row.role} == {0}


async def test_its_baseline():
    """The best first answer of the group earned 1, as did the distilled one."""
    for baseline, expected in ((f"{FILE}:best_first_answer", 0.0), ("first_turn", 0.5)):
        config = read(distill={"weight": 1.0, "baseline": baseline, "log_prob_floor": None})
        _, batch, targets = await trained_on(config)
        assert set(targets.advantages[batch.tokens(1)].tolist()) == {expected}


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"objectives": {"u": f"{FILE}:UnlearnSettings"}}, "rltf.objectives.u=.*must be a class"),
        ({"objectives": {"u": "./no.py:U"}}, "rltf.objectives.u=.*no such file"),
        ({"objectives": {"distill": f"{FILE}:Unlearn"}}, "needs a name that no other block has"),
        ({"objectives": {"u": "Unlearn"}}, "must name a class"),
        ({"objectives": {"admin": f"{FILE}:Unlearn"}}, "admin=.*: verl would take the min of its"),
        ({**UNLEARN, "unlearn": {"mos": 1}}, "rltf.unlearn.mos=1: unknown key; did you mean"),
        (
            {"objectives": {"u": "tests.objectives.test_own_on_cpu:Sampled"}},
            "rltf.objectives.u=.*: sampled=True is for attempts and critiques",
        ),
        ({"distill": {"baseline": "best"}}, "rltf.distill.baseline=best: must be one of"),
    ],
)
def test_what_cannot_be_is_refused(blocks, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        Method(read(**blocks))


def test_a_method_travels_as_its_config():
    """Closures name where a user's objective fails, and no closure can be pickled."""
    sent = Method(read(**UNLEARN, unlearn={"weight": 0.2}))
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(sent.objectives)
    received = pickle.loads(pickle.dumps(sent))
    assert received.config == sent.config
    assert received.weights(ONLY) == sent.weights(ONLY)
    assert [own.name for own in received.user_objectives] == ["unlearn"]


HERE = "tests.objectives.test_own_on_cpu"
MADE_UP = " (tried before the run, on episodes that are made up)"


async def test_rows_that_raise_name_the_objective_and_the_line():
    config = read(objectives={"u": f"{HERE}:Raises"})
    with pytest.raises(OwnCodeError) as failed:
        await episode_rows(None, (), RIGHT, Method(config))
    line = rf"rltf.objectives.u={HERE}:Raises: rows\(\) raised KeyError: 0 \(\w+.py:\d+\)"
    assert re.fullmatch(line, str(failed.value))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Table",
            "turn_weights() returned a tensor of shape [6]; return a tensor of [S, 1] or [S, M],"
            " here [6, 1] or [6, 2]",
        ),
        ("Sum", "loss() returned a tensor of shape [6, 4]; return a scalar tensor"),
    ],
)
def test_what_fails_on_a_batch_is_found_before_the_run(name, message):
    config = {"objectives": {"u": f"{HERE}:{name}"}}
    line = f"rltf.objectives.u={HERE}:{name}: {message}{MADE_UP}"
    assert list(map(str, own_failures(Method(read(**config)), 2))) == [line]
    assert not list(own_failures(Method(read(**config, u={"weight": 0})), 2))


@pytest.mark.parametrize("num_episodes", [1, 2, 8])
def test_an_objective_that_works_is_found_to(num_episodes):
    assert not list(own_failures(Method(read(**UNLEARN)), num_episodes))
    own = read(distill={"weight": 1.0, "baseline": f"{FILE}:best_first_answer"})
    distill = objective_of(own, "distill")
    assert not list(distill.refusals(lambda key: num_episodes, None))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "flat",
            " returned a tensor of shape [6]; return a tensor of [S, 1] or [S, M], here [6, 1] or"
            " [6, 2]",
        ),
        ("nothing", " returned None; return a tensor of [S, 1] or [S, M], here [6, 1] or [6, 2]"),
        (
            "by_std",
            " returned nan for turn 1 of an episode of a group with the rewards [0.0, 0.0]; return"
            " finite numbers",
        ),
        (
            "by_name",
            " raised KeyError: 'returns' (test_own_on_cpu.py:",
        ),
        ("array", None),
        ("HERE", ": must be a function"),
    ],
)
def test_a_baseline_is_tried_before_the_run(name, message):
    config = read(distill={"weight": 1.0, "baseline": f"{HERE}:{name}"})
    distill = objective_of(config, "distill")
    lines = [*map(str, distill.refusals(lambda key: 2, None))]
    assert len(lines) == (message is not None)
    assert all(line.startswith(f"rltf.distill.baseline={HERE}:{name}{message}") for line in lines)


USER_CODE = """
import sys
def raises(*given): raise KeyError("turn")
def leaves(*given): sys.exit(3)
def nothing(*given): return None
def gate(evidence, scale): return evidence.gap * 0 + 1, evidence.gap.abs() * scale
def negative(evidence, scale): return evidence.gap * 0 + 1, evidence.gap
def parts(text): return [(0, len(text))]
def total_variation(student, teacher, beta, clip):
    return (student.exp() - teacher.exp()).abs().sum(-1)
def constant(student, teacher, beta, clip): return teacher.sum(-1)
"""
GATE, FILTER, DIVERGENCE = "teacher.gate", "feedback_modeling.filter", "logit_distill.divergence"


@pytest.mark.parametrize(
    ("key", "where", "fails"),
    [
        *((key, "os:getcwd", "TypeError") for key in (GATE, FILTER, DIVERGENCE)),
        *((key, "raises", "KeyError") for key in (GATE, FILTER, DIVERGENCE)),
        *((key, "leaves", "SystemExit: 3") for key in (GATE, FILTER, DIVERGENCE)),
        *((key, "nothing", "None") for key in (GATE, FILTER, DIVERGENCE)),
        (GATE, "negative", "weights of at least 0"),
        (DIVERGENCE, "constant", "does not require grad"),
        (GATE, "gate", None),
        (FILTER, "parts", None),
        (DIVERGENCE, "total_variation", None),
    ],
)
def test_a_gate_a_filter_and_a_divergence_are_tried_before_the_run(tmp_path, key, where, fails):
    file = tmp_path / "mine.py"
    file.write_text(USER_CODE)
    place = where if ":" in where else f"{file}:{where}"
    name, _, setting = key.partition(".")
    blocks = {"logit_distill": {"weight": 1.0}, "feedback_modeling": {"weight": 1.0}}
    blocks[name] = {**blocks.get(name, {}), setting: place}
    config = read(**blocks)
    settings = {"actor_rollout_ref.actor.strategy": "fsdp"}
    refused = [
        str(finding)
        for objective in Method(config).objectives
        if objective.name in blocks
        for finding in objective.refusals(settings.get, VerifierProvider())
    ]
    assert len(refused) == (fails is not None)
    assert all(line.startswith(f"rltf.{key}={place}") and fails in line for line in refused)
