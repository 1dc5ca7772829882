"""One run: play a batch of episodes, make their rows, update once; look at held-out problems every
few steps.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.study.controls import control_rows
from benchmarks.study.learner import Learner
from benchmarks.study.rollout import LocalPolicy
from benchmarks.study.settings import EPISODES_TESTED
from rltf_verl.adapters.cpu.rollout.generation import BatchGenerator
from rltf_verl.adapters.metrics.validation import averaged_info
from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.algos.pack import pack_episodes
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.run import run_episode
from rltf_verl.episode.seeds import sampling_seed
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import CONTEXT, Episode, Problem, Row

TURNS_TESTED = 2
"""Held-out problems get a second turn whatever the method's horizon."""


@dataclass
class Used:
    """What training has cost so far."""

    sessions: int = 0
    attempts: int = 0
    sampled_tokens: int = 0
    trained_tokens: int = 0
    """Response tokens of all rows that have a role."""
    live_groups: int = 0
    """Groups with right and wrong first answers."""
    seconds: float = 0.0

    def add(self, episodes: Sequence[Episode], rows: Sequence[Row]) -> None:
        """Count a batch."""
        attempts = [turn.attempt for episode in episodes for turn in episode.turns]
        self.sessions += len(episodes)
        self.attempts += len(attempts)
        self.sampled_tokens += sum(len(a.response_ids) for a in attempts)
        self.trained_tokens += sum(role != CONTEXT for row in rows for role in row.role)
        firsts: dict[int, set[bool]] = defaultdict(set)
        for episode in episodes:
            firsts[episode.problem.index].add(episode.turns[0].grade.correct)
        self.live_groups += sum(len(grades) > 1 for grades in firsts.values())


@dataclass
class Trained:
    """What one run leaves."""

    curve: list[dict[str, Any]] = field(default_factory=list)
    """One point per evaluation: step, what was used, accuracies, metrics of the roles."""
    episodes: list[dict[str, Any]] = field(default_factory=list)
    """Held-out episodes and training episodes of each evaluation's step, to read."""


class Trainer:
    """One policy in training; everything but the control (`controls`) follows from the
    configuration.
    """

    def __init__(
        self,
        config: DictConfig,
        policy: Path,
        train: Sequence[Problem],
        num_steps: int,
        control: str = "",
    ) -> None:
        self.parts = checked_parts(config)
        self.rltf = self.parts.config
        self.train, self.num_steps, self.control = train, num_steps, control
        self.problems_per_step, self.sessions = (
            config.data.train_batch_size,
            config.actor_rollout_ref.rollout.n,
        )
        self.env = self.parts.env
        model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(policy)
        self.generator = BatchGenerator(model, [tokenizer.eos_token_id])
        data = config.data
        self.policy = LocalPolicy(
            self.generator, tokenizer, data.max_prompt_length, data.max_response_length
        )
        self.learner = Learner(model, config, self.rltf, num_steps)
        self.order = problem_order(len(train), self.problems_per_step, config.data.seed)
        self.used = Used()

    def step(self, step: int) -> tuple[list[Episode], dict[str, float]]:
        """One batch and one update; 1-based."""
        start = time.perf_counter()
        batch = [self.train[i] for i in next(self.order)]
        sessions = [(problem, session) for problem in batch for session in range(self.sessions)]
        played = self.policy.gather([self._episode(problem, s, step) for problem, s in sessions])
        episodes = [e for e, _ in played]
        rows, owner = self._controlled(
            [(row, i) for i, (_, own) in enumerate(played) for row in own], step
        )
        groups = [i // self.sessions for i in range(len(episodes))]
        metrics = self.learner.update(rows, owner, pack_episodes(episodes, groups), step)
        self.generator.set_version(step)
        self.used.add(episodes, rows)
        self.used.seconds += time.perf_counter() - start
        return episodes, metrics

    def _controlled(self, owned: list[tuple[Row, int]], step: int) -> tuple[list[Row], list[int]]:
        """Rows and their episodes, with the feedback that the control puts there."""
        problem = [session // self.sessions for _, session in owned]
        rng = random.Random(f"{self.rltf.seed} {step}")
        instead = control_rows(self.control, [row for row, _ in owned], problem, rng)
        kept = [
            (new, owner)
            for i, (row, owner) in enumerate(owned)
            if (new := instead.get(i, row)) is not None
        ]
        return [row for row, _ in kept], [owner for _, owner in kept]

    def test(self, problems: Sequence[Problem], step: int) -> list[Episode]:
        """Every problem `EPISODES_TESTED` times, two turns each, sampled as in training."""
        episode = replace(self.rltf.episode, horizon=TURNS_TESTED)
        parts = replace(self.parts, config=replace(self.rltf, episode=episode))
        sessions = [
            (problem, session) for problem in problems for session in range(EPISODES_TESTED)
        ]
        return self.policy.gather(
            [self._play(parts, p, s, step, validate=True) for p, s in sessions]
        )

    async def _episode(
        self, problem: Problem, session: int, step: int
    ) -> tuple[Episode, list[Row]]:
        episode = await self._play(self.parts, problem, session, step, validate=False)
        return episode, await episode_rows(self.policy, self._question(problem), episode, self.rltf)

    async def _play(
        self, parts: Parts, problem: Problem, session: int, step: int, *, validate: bool
    ) -> Episode:
        def seed_of(place: str) -> int:
            return sampling_seed(
                self.rltf.seed,
                validate=validate,
                step=step,
                source=f"rltf/{problem.env}",
                index=problem.index,
                session_id=session,
                place=place,
            )

        return await run_episode(
            parts,
            self.policy,
            problem,
            self._question(problem),
            session_id=session,
            validate=validate,
            seed_of=seed_of,
        )

    def _question(self, problem: Problem) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.env.prompt(problem)}]


def problem_order(num: int, batch_size: int, seed: int) -> Iterator[list[int]]:
    """Batches of problem numbers, epoch after epoch, in the order of verl's own data loader."""
    generator = torch.Generator()
    generator.manual_seed(seed)
    while True:
        shuffled = torch.randperm(num, generator=generator).tolist()
        for start in range(0, num - batch_size + 1, batch_size):
            yield shuffled[start : start + batch_size]


def train(
    trainer: Trainer,
    test: Sequence[Problem],
    eval_every: int,
    say: Callable[[dict[str, Any]], None],
) -> Trained:
    """The whole run; `say` is told of every evaluation."""
    trained, episodes, metrics = Trained(), list[Episode](), dict[str, float]()
    for step in range(trainer.num_steps + 1):
        if step:
            episodes, metrics = trainer.step(step)
        if step % eval_every == 0 or step == trainer.num_steps:
            held_out = trainer.test(test, step)
            point = {
                "step": step,
                **asdict(trainer.used),
                **accuracies(held_out),
                "train": accuracies(episodes),
                "roles": {k: round(v, 4) for k, v in metrics.items()},
            }
            trained.curve.append(point)
            trained.episodes += [_readable(e, step, "test") for e in held_out]
            trained.episodes += [_readable(e, step, "train") for e in episodes]
            say(point)
    return trained


def accuracies(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over the episodes of what verl's validation would report: acc, format_ok,
    acc_turn_2.
    """
    infos = [averaged_info(e, TURNS_TESTED) for e in episodes]
    return {k: round(sum(i[k] for i in infos) / len(infos), 4) for k in (infos[0] if infos else ())}


def _readable(episode: Episode, step: int, split: str) -> dict[str, Any]:
    turns = [
        {
            "text": t.attempt.text,
            "right": t.grade.correct,
            "feedback": t.feedback.text if t.feedback else None,
        }
        for t in episode.turns
    ]
    question = "\n".join("".join(map(str, row)) for row in episode.problem.data["matrix"])
    return {
        "step": step,
        "split": split,
        "index": episode.problem.index,
        "question": question,
        "reference": episode.problem.reference,
        "turns": turns,
    }
