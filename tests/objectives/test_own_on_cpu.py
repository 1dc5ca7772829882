"""A user's own objective and baseline, `docs/examples/unlearn.py`, by what training calls."""

import math
import pickle
import re

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
    received = pickle.loads(pickle.dumps(sent))
    assert received.config == sent.config
    assert received.weights(ONLY) == sent.weights(ONLY)
    assert [own.name for own in received.user_objectives] == ["unlearn"]


@pytest.mark.parametrize("num_episodes", [1, 2, 8])
def test_an_objective_that_works_is_found_to(num_episodes):
    assert not list(own_failures(Method(read(**UNLEARN)), num_episodes))
    own = read(distill={"weight": 1.0, "baseline": f"{FILE}:best_first_answer"})
    distill = objective_of(own, "distill")
    assert not list(distill.refusals(lambda key: num_episodes, None))


USER_CODE = """
import sys
import numpy as np
from rltf_verl.objectives import Objective

class Raises(Objective):
    async def rows(self, policy, messages, episode):
        return {}[episode.session_id]

class Table(Objective):
    def turn_weights(self, episodes):
        return episodes.rewards[:, 0]

class Sum(Objective):
    def loss(self, log_prob, ref_log_probs, weights, mask):
        return -log_prob * weights

def flat(episodes): return episodes.rewards.mean(1)
def array(episodes): return np.zeros((len(episodes.rewards), 1))
def by_std(episodes):
    first = episodes.rewards[:, 0].view(-1, len(episodes.rewards) // episodes.num_groups)
    return (first / first.std(1, keepdim=True)).view(-1, 1)

SIZE = 3
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


@pytest.fixture
def file(tmp_path):
    """A user's."""
    path = tmp_path / "mine.py"
    path.write_text(USER_CODE)
    return path


async def test_rows_that_raise_name_the_objective_and_the_line(file):
    with pytest.raises(OwnCodeError) as failed:
        await episode_rows(None, (), RIGHT, Method(read(objectives={"u": f"{file}:Raises"})))
    line = rf"rltf.objectives.u={file}:Raises: rows\(\) raised KeyError: 0 \(mine.py:8\)"
    assert re.fullmatch(line, str(failed.value))


@pytest.mark.parametrize(
    ("name", "returned"),
    [
        ("Table", "turn_weights() returned a tensor of shape [6]; "),
        ("Sum", "loss() returned a tensor of shape [6, 4]; "),
    ],
)
def test_what_fails_on_a_batch_is_found_before_the_run(file, name, returned):
    config = {"objectives": {"u": f"{file}:{name}"}}
    (line,) = map(str, own_failures(Method(read(**config)), 2))
    assert line.startswith(f"rltf.objectives.u={file}:{name}: {returned}")
    assert not list(own_failures(Method(read(**config, u={"weight": 0})), 2))


BASELINE, GATE = "distill.baseline", "teacher.gate"
FILTER, DIVERGENCE = "feedback_modeling.filter", "logit_distill.divergence"
SETTINGS = {"actor_rollout_ref.actor.strategy": "fsdp", "actor_rollout_ref.rollout.n": 2}


@pytest.mark.parametrize(
    ("key", "name", "fails"),
    [
        *((key, "raises", "KeyError") for key in (BASELINE, GATE, FILTER, DIVERGENCE)),
        *((key, "leaves", "SystemExit: 3") for key in (BASELINE, GATE, FILTER, DIVERGENCE)),
        *((key, "nothing", "None") for key in (BASELINE, GATE, FILTER, DIVERGENCE)),
        *((key, "array", "Error") for key in (GATE, FILTER, DIVERGENCE)),
        (BASELINE, "flat", "a tensor of shape [6]"),
        (BASELINE, "by_std", "nan for turn 1"),
        (BASELINE, "SIZE", "must be a function"),
        (GATE, "negative", "weights of at least 0"),
        (DIVERGENCE, "constant", "does not require grad"),
        (BASELINE, "array", None),
        (GATE, "gate", None),
        (FILTER, "parts", None),
        (DIVERGENCE, "total_variation", None),
    ],
)
def test_functions_are_tried_before_the_run(file, key, name, fails):
    block, _, setting = key.partition(".")
    blocks = {"distill": {}, "logit_distill": {}, "feedback_modeling": {}, "teacher": {}}
    blocks[block] = {setting: f"{file}:{name}"}
    trained = {each: {"weight": 1.0, **blocks[each]} for each in blocks if each != "teacher"}
    config = read(**{**blocks, **trained})
    refused = [
        str(finding)
        for objective in Method(config).objectives
        for finding in objective.refusals(SETTINGS.get, VerifierProvider())
    ]
    assert len(refused) == (fails is not None)
    for line in refused:
        assert line.startswith(f"rltf.{key}={file}:{name}")
        assert fails in line
