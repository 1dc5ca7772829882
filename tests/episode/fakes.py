"""A scripted policy, a scripted provider and a small environment: episodes without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rltf_verl.config import EpisodeConfig
from rltf_verl.episode.run import EpisodeRules, run_episode
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn

PROBLEM = Problem(env="echo", index=7, data={}, reference="yes")
QUESTION = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q?"}]


class EchoEnv:
    """`yes` is right, anything with a letter in it is an answer, `boom` breaks the grader."""

    name = "echo"

    def grade(self, problem: Problem, text: str) -> Grade:
        if "boom" in text:
            raise ZeroDivisionError("the grader broke")
        return Grade(correct=text.endswith("yes"), format_ok=any(c.isalpha() for c in text), parsed=text)


@dataclass
class ScriptedPolicy:
    """Says what it is told, one token per character; remembers prompts and seeds."""

    answers: Sequence[str]
    prompt_budget: int = 10_000
    cut: Sequence[int] = ()
    """Turns whose answer is cut off at the token limit."""
    prompts: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    async def encode(self, messages) -> tuple[int, ...]:
        return tuple(ord(c) for m in messages for c in f"<{m['role']}>{m['content']}")

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        turn = len(self.prompts)
        self.prompts.append("".join(map(chr, prompt_ids)))
        self.seeds.append(seed)
        text = self.answers[turn]
        ids = (*(ord(c) for c in text), 0)
        return Attempt(
            prompt_ids, ids, tuple(-0.1 * (i + 1) for i in range(len(ids))), text, ended=turn not in self.cut
        )


class ScriptedProvider:
    """Gives the scripted texts in order; None is a failure."""

    name, sees_reference, constant = "scripted", False, False

    def __init__(self, *texts: str | None) -> None:
        self.texts = list(texts)
        self.asked: list[int] = []

    async def feedback(self, env, problem: Problem, turns: Sequence[Turn]) -> Feedback:
        self.asked.append(len(turns))
        text = self.texts.pop(0)
        if text is None:
            raise FeedbackUnavailable(self.name, "nobody there")
        return Feedback(text, self.name)


async def play(
    policy: ScriptedPolicy,
    provider: ScriptedProvider,
    *,
    validate=False,
    on_error="stop_session",
    seeds=None,
    **episode,
) -> Episode:
    """Play one session at `PROBLEM`."""
    rules = EpisodeRules(EchoEnv(), provider, EpisodeConfig(**{"revise": "compact", **episode}), on_error, 0.1)
    return await run_episode(
        rules,
        policy,
        PROBLEM,
        QUESTION,
        session_id=3,
        validate=validate,
        seed_of_turn=seeds or (lambda turn: 100 + turn),
    )
