"""A game so small that every group of episodes can be summed over, with its probability.

The policy is a table of logits, one line per sequence of ids before a token, so it knows nothing
but what a row shows it. The environment is deterministic; what differs from case to case is how an
episode is played (`Game`).
"""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from rltf_verl.algos.losses import TOKEN_LOSSES
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.algos.targets import sampled_tokens
from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Turn
from tests.support.methods import targets_of
from tools.parity.pack import pack_episodes, pack_rows

GAMMA = 0.3
QUESTION = [{"role": "user", "content": "Q"}]


@dataclass(frozen=True)
class Game:
    """How an episode is played. Answers are all sequences of `length` tokens; the last of them is
    right.
    """

    vocab: int = 2
    length: int = 1
    horizon: int = 2
    early_stop: bool = False
    speaker: str = "mute"
    """Who says what is wrong: "mute" (nothing but another prompt), "expert" (one of two texts),
    "policy" (a token).
    """
    append: bool = False
    drop: float = 0.0
    """Probability that the feedback on an attempt fails, whatever the attempt."""

    @property
    def answers(self) -> list[tuple[int, ...]]:
        return list(itertools.product(range(self.vocab), repeat=self.length))

    def reward(self, answer: tuple[int, ...]) -> float:
        """One of the wrong answers also loses the format reward."""
        return 1.0 if answer == self.answers[-1] else -0.1 if answer == self.answers[0] else 0.0


@dataclass(frozen=True)
class Session:
    """One possible episode."""

    turns: tuple[Turn, ...]
    log_prob: torch.Tensor
    """Of everything that was sampled, differentiable."""

    @property
    def probability(self) -> float:
        return self.log_prob.exp().item()

    def returns(self, gamma: float = GAMMA) -> list[float]:
        """r + γ · that of the next turn."""
        values = [turn.reward for turn in self.turns]
        for m in reversed(range(len(values) - 1)):
            values[m] += gamma * values[m + 1]
        return values


@dataclass
class Player:
    """The policy of a game. Also a `policy.Policy`, as far as rows are made of it."""

    game: Game
    prompt_budget: int = 10_000
    places: dict[tuple[int, ...], int] = field(default_factory=dict)
    asked_at: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Line of the table -> ("answer" | "critique", turn) that it decides on."""

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn(
            500, self.game.vocab, generator=generator, dtype=torch.float64, requires_grad=True
        )
        self.log_softmax = self.table.log_softmax(-1)
        self.sessions = [
            Session(turns, log_prob) for turns, log_prob in self._play(self.first_prompt, 0)
        ]

    first_prompt = (100,)

    def token_log_probs(self, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> torch.Tensor:
        """log π of every token that has a logit; 0 for the others, which nobody samples."""
        values = []
        for t, token in enumerate(tokens):
            line = self.places.setdefault((*prompt, *tokens[:t]), len(self.places))
            values.append(
                self.log_softmax[line, token]
                if token < self.game.vocab
                else torch.zeros(()).double()
            )
        return torch.stack(values)

    def log_prob(self, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> torch.Tensor:
        return self.token_log_probs(prompt, tokens).sum()

    def _sample(
        self, prompt: tuple[int, ...], tokens: tuple[int, ...], what: str, turn: int
    ) -> Attempt:
        values = self.token_log_probs(prompt, tokens)
        for t in range(len(tokens)):
            self.asked_at[self.places[(*prompt, *tokens[:t])]] = (what, turn)
        return Attempt(
            prompt, tokens, tuple(values.tolist()), text="".join(map(str, tokens)), ended=True
        )

    def _play(
        self, prompt: tuple[int, ...], turn: int
    ) -> Iterator[tuple[tuple[Turn, ...], torch.Tensor]]:
        """All that can follow a prompt: turns, and the log-probability."""
        game = self.game
        for answer in game.answers:
            attempt = self._sample(prompt, answer, "answer", turn)
            correct = answer == game.answers[-1]
            here = Turn(attempt, Grade(correct, True), game.reward(answer))
            log_prob = self.log_prob(prompt, answer)
            if turn + 1 == game.horizon or (correct and game.early_stop):
                yield (replace(here, stop="horizon"),), log_prob
                continue
            if game.drop:
                yield (replace(here, stop="feedback_unavailable"),), log_prob + math.log(game.drop)
                log_prob = log_prob + math.log1p(-game.drop)
            for feedback, revise_prompt, feedback_log_prob in self._feedback(attempt, turn):
                for following, log_prob_after in self._play(revise_prompt, turn + 1):
                    turns = replace(here, feedback=feedback), *following
                    yield turns, log_prob + feedback_log_prob + log_prob_after

    def _feedback(
        self, attempt: Attempt, turn: int
    ) -> Iterator[tuple[Feedback | None, tuple[int, ...], torch.Tensor]]:
        """What may be said, the prompt it leads to, and its log-probability."""
        zero = torch.zeros(()).double()
        if self.game.speaker == "mute":
            yield None, self._revise_prompt(attempt, turn, ()), zero
        for f, share in ((0, 0.25), (1, 0.75)) if self.game.speaker == "expert" else ():
            start = len(attempt.prompt_ids) + len(attempt.response_ids) + 1
            feedback = Feedback(
                f"{f}{f}", "expert", span=(start, start + 2) if self.game.append else None
            )
            yield feedback, self._revise_prompt(attempt, turn, (f, f)), zero + math.log(share)
        for c in range(self.game.vocab) if self.game.speaker == "policy" else ():
            critique = self._sample(
                (300 + turn, *attempt.prompt_ids, *attempt.response_ids), (c,), "critique", turn
            )
            prompt = self._revise_prompt(attempt, turn, (c,))
            yield (
                Feedback(f"{c}", "policy", attempt=critique),
                prompt,
                self.log_prob(critique.prompt_ids, (c,)),
            )

    def _revise_prompt(self, attempt: Attempt, turn: int, said: tuple[int, ...]) -> tuple[int, ...]:
        before = (*attempt.prompt_ids, *attempt.response_ids)
        return (*before, 50, *said, 51) if self.game.append else (200 + turn, *before, *said)

    async def encode_unthinking(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        return await self.encode(messages)

    async def encode(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        return tuple(1000 + ord(c) for m in messages for c in m["content"])

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        return tuple(map(int, text))

    def gradient(self, objective: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(objective, self.table, retain_graph=True)[0]

    def only(self, gradient: torch.Tensor, what: str, turn: int) -> torch.Tensor:
        """The gradient with respect to what decides on the answers (or critiques) of one turn; 0
        elsewhere.
        """
        lines = [line for line, asked in self.asked_at.items() if asked == (what, turn)]
        mask = torch.zeros(len(gradient), 1, dtype=torch.float64)
        mask[lines] = 1.0
        return gradient * mask

    def objective(self, turn: int, gamma: float = GAMMA) -> torch.Tensor:
        """E[Σ of the returns of the attempts of a turn], differentiable."""
        earned = [s.log_prob.exp() * sum(s.returns(gamma)[turn : turn + 1]) for s in self.sessions]
        return torch.stack(earned).sum()

    def reach(self, turn: int) -> float:
        """Probability that an episode has an attempt of this turn."""
        return sum(s.probability for s in self.sessions if turn < len(s.turns))


Groups = list[tuple[tuple[int, ...], float]]
"""Groups as positions of their episodes, with the probability of each."""


def independent_groups(player: Player, num: int) -> Groups:
    """All groups of `num` episodes; their order does not matter, so each is taken once, with all
    its orders.
    """
    groups = []
    for group in itertools.combinations_with_replacement(range(len(player.sessions)), num):
        orders = math.factorial(num) / math.prod(math.factorial(n) for n in Counter(group).values())
        groups.append((group, orders * math.prod(player.sessions[s].probability for s in group)))
    return groups


def expected_gradients(
    player: Player, num: int, config: RLTFConfig, groups: Groups | None = None
) -> dict[Role, torch.Tensor]:
    """E[−∇L] of the tokens of each role over all groups of `num` episodes, through rows, targets
    and losses.
    """
    played = [Episode(Problem("game", 0, {}, ""), 0, s.turns) for s in player.sessions]
    method = Method(config)
    made = [asyncio.run(episode_rows(player, QUESTION, e, method)) for e in played]
    log_probs = [
        [player.token_log_probs(row.prompt_ids, row.response_ids) for row in rows] for rows in made
    ]
    rows, own, row_episode, weight, episodes, group_of = [], [], [], [], [], []
    for g, (group, probability) in enumerate(groups or independent_groups(player, num)):
        for s in group:
            rows += made[s]
            own += log_probs[s]
            row_episode += [len(episodes)] * len(made[s])
            weight += [probability] * len(made[s])
            episodes.append(played[s])
            group_of.append(g)
    log_prob = torch.cat(own)
    batch = pack_rows(
        rows, row_episode, pack_episodes(episodes, group_of), [v.tolist() for v in own]
    )
    targets = targets_of(batch, config)
    weights = torch.tensor(weight, dtype=torch.float64).repeat_interleave(batch.lengths)
    advantages = targets.advantages.double() * weights
    policy = TOKEN_LOSSES["importance_sampling"](log_prob, log_prob.detach(), advantages, 0.8, 1.2)
    policy = policy * sampled_tokens(batch.role)
    losses = {role: (policy * batch.tokens(role)).sum() for role in (Role.ATTEMPT, Role.CRITIQUE)}
    losses[Role.DISTILL] = distill_loss(
        log_prob,
        targets.ref_log_probs.double(),
        advantages,
        batch.tokens(Role.DISTILL),
        config.distill,
    )
    for role in (Role.FEEDBACK_MODELING, Role.IMITATE):
        losses[role] = supervised_loss(log_prob, advantages, batch.tokens(role))
    return {role: player.gradient(-loss) for role, loss in losses.items()}


def check(ours: torch.Tensor, truth: torch.Tensor) -> None:
    """Equal to 1e-6, and not because both are zero."""
    assert truth.abs().max() > 1e-4
    torch.testing.assert_close(ours, truth, atol=1e-6, rtol=0)
