"""Every group of sessions of a tiny game summed over: what the estimators estimate, in exact numbers.

There is one first prompt and one revise prompt per first answer (that is what feedback does). The policy is a table of
logits per (context, answer so far). Expected gradients come from our rows, targets and losses, each group weighted by
its probability; the truth comes from differentiating the exact objective or from summing the stated estimand over
single sessions.
"""

import itertools
from dataclasses import dataclass

import pytest
import torch

from rltf_verl.algos.losses import TOKEN_LOSSES
from rltf_verl.algos.pack import pack_rows
from rltf_verl.algos.role_loss import distill_loss
from rltf_verl.algos.targets import compute_targets
from rltf_verl.episode.rows import episode_to_rows
from rltf_verl.types import Attempt, Episode, Grade, Problem, Role, Turn

GAMMA = 0.3


@dataclass(frozen=True)
class Game:
    """Answers of `length` tokens out of `vocab`; some are right, one of the wrong ones also loses the format reward."""

    vocab: int
    length: int

    @property
    def answers(self):
        return list(itertools.product(range(self.vocab), repeat=self.length))

    def correct(self, answer):
        return answer == self.answers[-1]

    def reward(self, answer):
        return 1.0 if self.correct(answer) else -0.1 if answer == self.answers[0] else 0.0

    def prompt(self, first=None):
        """Ids from 10 on, so that no prompt continues another."""
        return (10,) if first is None else (11, 20 + self.answers.index(first))

    def logits(self):
        torch.manual_seed(0)
        contexts = [self.prompt(), *(self.prompt(a) for a in self.answers)]
        prefixes = [p for n in range(self.length) for p in itertools.product(range(self.vocab), repeat=n)]
        table = torch.randn(len(contexts), len(prefixes), self.vocab, dtype=torch.float64, requires_grad=True)
        return table, contexts, prefixes

    def sessions(self, early_stop):
        """All sessions as tuples of answers."""
        for first in self.answers:
            if early_stop and self.correct(first):
                yield (first,)
            else:
                yield from ((first, second) for second in self.answers)


@dataclass
class Policy:
    game: Game

    def __post_init__(self):
        self.table, self.contexts, self.prefixes = self.game.logits()
        self.log_softmax = self.table.log_softmax(-1)

    def token_log_probs(self, prompt, answer):
        c = self.contexts.index(prompt)
        return torch.stack([self.log_softmax[c, self.prefixes.index(answer[:t]), a] for t, a in enumerate(answer)])

    def log_prob(self, prompt, answer):
        return self.token_log_probs(prompt, answer).sum()

    def session_log_prob(self, session):
        total = self.log_prob(self.game.prompt(), session[0])
        return total + self.log_prob(self.game.prompt(session[0]), session[1]) if len(session) > 1 else total

    def gradient(self, objective):
        return torch.autograd.grad(objective, self.table, retain_graph=True)[0]


def episode(game, session):
    turns = []
    for k, answer in enumerate(session):
        prompt = game.prompt() if k == 0 else game.prompt(session[0])
        attempt = Attempt(prompt, answer, (0.0,) * len(answer), text="", ended=True)
        turns.append(Turn(attempt, Grade(game.correct(answer), True), game.reward(answer)))
    return Episode(Problem("game", 0, {}, ""), 0, tuple(turns), "horizon")


def expected_gradients(policy, num, early_stop):
    """E[-∇L] of attempt and of distillation rows over all groups of `num` sessions, through our own code."""
    game = policy.game
    sessions = list(game.sessions(early_stop))
    probability = {s: policy.session_log_prob(s).exp().item() for s in sessions}
    rows, row_session, session_group, weight, log_probs = [], [], [], [], []
    for g, group in enumerate(itertools.product(sessions, repeat=num)):
        p = torch.tensor([probability[s] for s in group], dtype=torch.float64).prod().item()
        for session in group:
            for row in episode_to_rows(episode(game, session), distill=True):
                rows.append(row)
                row_session.append(len(session_group))
                weight.append(p)
                log_probs.append(policy.token_log_probs(row.prompt_ids, row.response_ids))
            session_group.append(g)
    log_prob = torch.stack(log_probs)
    packed = pack_rows(rows, row_session, session_group, log_prob.tolist())
    targets = compute_targets(packed, gamma=GAMMA, distill_weight=1.0, baseline="first_turn", log_prob_floor=None)
    advantages = targets.advantages.double() * torch.tensor(weight, dtype=torch.float64).unsqueeze(1)
    is_distill = packed.has_role(Role.DISTILL).unsqueeze(1)
    attempt = TOKEN_LOSSES["importance_sampling"](log_prob, log_prob.detach(), advantages, 0.8, 1.2)
    distilled = distill_loss(
        log_prob, torch.full_like(log_prob, -9.0), advantages, packed.mask & is_distill,
        reference="current", loss="importance_sampling", clip_low=0.8, clip_high=1.2,
    )  # fmt: skip
    attempt = (attempt * (packed.mask & ~is_distill)).sum()
    return policy.gradient(-attempt), policy.gradient(-distilled)


def check(ours, truth):
    assert truth.abs().max() > 1e-3  # a comparison of zeros would show nothing
    torch.testing.assert_close(ours, truth, atol=1e-6, rtol=0)


CASES = pytest.mark.parametrize(("vocab", "length", "num"), [(2, 2, 2), (2, 1, 3), (3, 1, 2), (2, 2, 1)])


@CASES
@pytest.mark.parametrize("early_stop", [True, False])
def test_distillation_is_advantage_weighted_regression_onto_the_first_prompt(vocab, length, num, early_stop):
    """N sessions' E[-∇L] = N · E_{y0 ~ π(·|x0), y1 ~ π(·|x1(y0))}[(r1 - b) ∇ log π(y1|x0)].

    b holds the session's own first reward too, so given the session it is (r0 + (N-1) E[r0]) / N: the baseline is not
    independent of y1, which depends on y0 through the feedback. That is the paper's Algorithm 1, stated and not mended.
    """
    policy = Policy(Game(vocab, length))
    game, first = policy.game, policy.game.prompt()
    mean_first = sum(policy.log_prob(first, a).exp().item() * game.reward(a) for a in game.answers)
    truth = torch.zeros_like(policy.table)
    for session in game.sessions(early_stop):
        if len(session) > 1:
            baseline = (game.reward(session[0]) + (num - 1) * mean_first) / num
            a = game.reward(session[1]) - baseline
            weight = num * policy.session_log_prob(session).exp().item() * a
            truth += weight * policy.gradient(policy.log_prob(first, session[1]))
    _, distilled = expected_gradients(policy, num, early_stop)
    check(distilled, truth)
    assert not distilled[1:].any()  # nothing is learned about any prompt but the first


def objective(policy, early_stop, value):
    """E over sessions of value(rewards), differentiable."""
    game = policy.game
    return sum(policy.session_log_prob(s).exp() * value([game.reward(a) for a in s]) for s in game.sessions(early_stop))


@pytest.mark.parametrize(("vocab", "length", "num"), [(2, 2, 2), (2, 1, 3), (3, 1, 2)])
def test_attempt_gradient_is_the_policy_gradient_times_n_minus_one_over_n(vocab, length, num):
    """Bias: the group's mean contains the session's own return, so E[-∇L] = N · (N-1)/N · ∇J.

    First-turn parameters climb E[r0 + γ r1]; those of a revise prompt climb E[r1] (undiscounted: every turn counts its
    return from itself on).
    """
    policy = Policy(Game(vocab, length))
    attempt, _ = expected_gradients(policy, num, early_stop=False)
    shrink = (num - 1) / num
    first = policy.gradient(objective(policy, False, lambda r: r[0] + GAMMA * r[1]))[:1]
    second = policy.gradient(objective(policy, False, lambda r: r[1]))[1:]
    check(attempt[:1] / num, shrink * first)
    check(attempt[1:] / num, shrink * second)


@pytest.mark.parametrize(("vocab", "length", "num"), [(2, 2, 2), (2, 1, 3), (3, 1, 2)])
def test_with_early_stop_the_second_turn_shrinks_by_the_sessions_that_reach_it(vocab, length, num):
    """Bias: (N-1)/N in turn 1; in turn 2 (m-1)/m with m sessions there, so a lone one learns nothing."""
    policy = Policy(Game(vocab, length))
    attempt, _ = expected_gradients(policy, num, early_stop=True)
    first = policy.gradient(objective(policy, True, lambda r: r[0] + (GAMMA * r[1] if len(r) > 1 else 0.0)))[:1]
    check(attempt[:1] / num, (num - 1) / num * first)

    fail = 1.0 - policy.log_prob(policy.game.prompt(), policy.game.answers[-1]).exp().item()
    others = [(k, torch.distributions.Binomial(num - 1, torch.tensor(fail, dtype=torch.float64))) for k in range(num)]
    shrink = sum(d.log_prob(torch.tensor(float(k), dtype=torch.float64)).exp().item() * k / (k + 1) for k, d in others)
    second = policy.gradient(objective(policy, True, lambda r: r[1] if len(r) > 1 else 0.0))[1:]
    check(attempt[1:] / num, shrink * second)


def test_a_group_of_one_has_no_attempt_gradient():
    attempt, _ = expected_gradients(Policy(Game(2, 2)), 1, early_stop=False)
    assert not attempt.any()
