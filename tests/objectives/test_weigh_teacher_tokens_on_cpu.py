"""What a gate makes of the targets of a step: which tokens, which groups, which coefficient."""

import torch

from rltf_verl.algos.episodes import in_line
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import (
    AttemptConfig,
    LogitDistillConfig,
    NamedOptions,
    RLTFConfig,
    TeacherConfig,
)
from rltf_verl.config.teacher import Gate
from rltf_verl.objectives.teacher import weigh_teacher_tokens
from rltf_verl.types import Role

# Two groups of two episodes; in the first one is right at once, in the second none. Tokens of two
# turns of each episode, and of a row that no teacher sees.
EPISODES = in_line(
    torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]),
    torch.tensor([[True, False], [True, True], [True, True], [True, True]]),
    torch.tensor([0, 0, 1, 1]),
)
EPISODE = torch.tensor([0, 1, 1, 2, 2, 3, 3])
TURN = torch.tensor([0, 0, 1, 0, 1, 0, 1])
PLACE = torch.tensor([0, 1, 2, 3, 4])
GAP = torch.log(torch.tensor([2.0, 0.5, 3.0, 0.9, 1.0]))
ADVANTAGES = torch.tensor([1.0, -1.0, 0.5, -2.0, 0.25, -3.0, 4.0])


def weighed(gate, entropy=None, weight=1.0, attempt=1.0, **logit):
    tokens = torch.zeros(7)
    batch = RowBatch(
        role=torch.full((7,), int(Role.ATTEMPT)),
        turn=TURN,
        episode=EPISODE,
        lengths=torch.ones(7, dtype=torch.int64),
        episodes=EPISODES,
        old_log_probs=tokens,
        sampler_log_probs=tokens,
    )
    targets = RowTargets(attempt * ADVANTAGES, tokens, tokens.bool())
    config = RLTFConfig(
        env=NamedOptions("word"),
        attempt=AttemptConfig(weight=attempt),
        teacher=TeacherConfig(gate=gate),
        logit_distill=LogitDistillConfig(weight=weight, **logit),
    )
    coefficients = {"logit_distill": weight}
    targets, weights = weigh_teacher_tokens(
        config, batch, targets, PLACE, GAP, entropy, coefficients
    )
    return targets.advantages, weights


def test_routing_leaves_answers_without_a_teacher_alone():
    advantages, weights = weighed(Gate("route"))
    assert advantages.tolist() == [1.0, 0.0, 0.5, 0.0, 0.25, -3.0, 4.0]
    assert weights.tolist() == [0, 1, 0, 1, 0]


def test_the_solve_rate_is_that_of_the_group_at_the_turn():
    _, weights = weighed(Gate("variance"))
    # turn 0: 1/2 and 0; turn 1: only one episode of the first group has one, and all are right
    assert weights.tolist() == [2.5, 2.5, 0.0, 0.0, 0.0], "0.5 over its mean, 0.2"


def test_what_is_added_is_faded_in_by_the_coefficient():
    gate = Gate("residual", 1.0, 2.0, 0.1)
    added = torch.tanh(torch.cat([GAP, torch.zeros(2)]) / 2)
    added[3] = 0.0  # tanh(log(0.9) / 2) = −0.05 is below the threshold
    whole, weights = weighed(gate)
    torch.testing.assert_close(whole, ADVANTAGES + added)
    assert not weights.any()
    half, _ = weighed(gate, weight=0.5)
    torch.testing.assert_close(half, ADVANTAGES + added / 2)
    # The term is one of the advantage itself: the objective's coefficient multiplies both.
    scaled, _ = weighed(gate, attempt=0.1)
    torch.testing.assert_close(scaled, 0.1 * whole)


def test_an_unsure_teacher_weighs_less_among_the_tokens_that_it_teaches():
    entropy = torch.tensor([9.0, 0.0, 9.0, 4.0, 9.0]).log1p()  # e^{-H}: 1 and 1/5 of what counts
    _, weights = weighed(Gate("route"), entropy, entropy_decay=1.0)
    torch.testing.assert_close(weights, torch.tensor([0, 1 / 0.6, 0, 0.2 / 0.6, 0]))


def test_an_own_gate_from_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def gate(told, scale):\n    return told.gap * 0 + 2, told.solved * scale\n")
    advantages, weights = weighed(Gate(f"{path}:gate", 3.0))
    assert torch.equal(advantages, ADVANTAGES * torch.tensor([2, 2, 2, 2, 2, 1, 1]))
    assert weights.tolist() == [1.5, 1.5, 3.0, 0.0, 3.0]
