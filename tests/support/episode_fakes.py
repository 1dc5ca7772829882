"""A scripted policy, a scripted provider and a small environment: episodes without a model."""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rltf_verl.config import EpisodeConfig, FeedbackConfig, RewardConfig, RLTFConfig
from rltf_verl.envs.base import Env
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, FeedbackUnavailable
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem

PROBLEM = Problem(env="echo", index=7, data={}, reference="yes")
QUESTION = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q?"}]
FIRST_PROMPT = "<system>S<user>Q?"


class EchoEnv(Env):
    """`yes` is right, anything with a letter in it is an answer, `boom` breaks the grader."""

    name = "echo"

    def grade(self, problem: Problem, text: str) -> Grade:
        if "boom" in text:
            raise ZeroDivisionError("the grader broke")
        return Grade(
            correct=text.endswith("yes"), format_ok=any(c.isalpha() for c in text), parsed=text
        )


def seed_of_place(place: str) -> int:
    """A seed that `ScriptedPolicy` can read the place from."""
    return int.from_bytes(place.encode(), "big")


@dataclass
class ScriptedPolicy:
    """Says what it is told, one token per character; remembers prompts and seeds."""

    answers: Sequence[str] | Mapping[str, str]
    """In order, or by place in the episode (`seed_of_place`)."""
    prompt_budget: int = 10_000
    answer_budget: int = 10_000
    cut: Sequence[int] = ()
    """Turns whose answer is cut off at the token limit."""
    prompts: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    refuses: str | None = None
    """What cannot be encoded, as half a surrogate pair cannot."""

    async def encode(self, messages) -> tuple[int, ...]:
        said = "".join(f"<{m.get('name', m['role'])}>{m['content']}" for m in messages)
        if self.refuses and self.refuses in said:
            "\ud83d".encode()
        return tuple(map(ord, said))

    async def encode_unthinking(self, messages) -> tuple[int, ...]:
        return await self.encode(messages)

    async def extend(self, ids: tuple[int, ...], messages, message) -> tuple[int, ...]:
        said = text_of(await self.encode(messages)).replace("<assistant>", "")
        assert said == text_of(ids).replace("\0", ""), "the messages are those that the ids say"
        return ids + await self.encode([message])

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        return (*(ord(c) for c in text), 0)[: self.answer_budget]

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(chr(i) if i else "" for i in ids)

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        turn = len(self.prompts)
        self.prompts.append(text_of(prompt_ids))
        self.seeds.append(seed)
        by_place = isinstance(self.answers, Mapping)
        text = self.answers[seed.to_bytes(20, "big").strip(b"\0").decode() if by_place else turn]
        ids = (*(ord(c) for c in text), 0)
        return Attempt(
            prompt_ids,
            ids,
            tuple(-0.1 * (i + 1) for i in range(len(ids))),
            text,
            ended=turn not in self.cut,
        )


@dataclass
class LatePolicy(ScriptedPolicy):
    """Answers after a while that has nothing to do with what it answers."""

    delays: random.Random = field(default_factory=random.Random)
    breaks_at: int | None = None
    """Turn at which sampling raises."""

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        await asyncio.sleep(self.delays.random() * 0.004)
        if len(self.prompts) == self.breaks_at:
            raise RuntimeError("the engine died")
        return await super().sample(prompt_ids, seed)


def text_of(ids: Iterable[int]) -> str:
    """What the scripted policy's ids stand for; the end of an answer is the character 0."""
    return "".join(map(chr, ids))


class ScriptedProvider(FeedbackProvider):
    """Gives the scripted texts in order; None is a failure. Remembers what it was asked."""

    name, sees_reference, constant, repeats = "scripted", False, False, False

    def __init__(self, *texts: str | None, attempt: Attempt | None = None) -> None:
        self.texts, self.attempt = list(texts), attempt
        self.asked: list[int] = []
        self.requests: list[FeedbackRequest] = []

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        self.asked.append(len(request.turns))
        self.requests.append(request)
        text = self.texts[0] if self.repeats and len(self.texts) == 1 else self.texts.pop(0)
        if text is None:
            raise FeedbackUnavailable(self.name, "nobody there")
        return Feedback(text, self.name, attempt=self.attempt)


class Remark(ScriptedProvider):
    """Says something about each attempt; never runs out."""

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        self.texts = [f"not {request.turns[-1].attempt.text}"]
        return await super().feedback(request)


def parts_with(
    env: Env,
    provider: FeedbackProvider,
    feedback: FeedbackConfig | None = None,
    reward: Mapping[str, object] | None = None,
    **episode,
) -> Parts:
    """Parts that are objects of the test, and keys of the block `rltf.episode`."""
    config = RLTFConfig(
        episode=EpisodeConfig(**{"revise": "compact", **episode}),
        feedback=feedback or FeedbackConfig(),
        reward=RewardConfig(**(reward or {})),
    )
    return Parts(config, env, provider)


async def play(
    policy: ScriptedPolicy,
    provider: ScriptedProvider,
    *,
    validate=False,
    on_error="stop_session",
    reward=None,
    session_id=3,
    env=None,
    **episode,
) -> Episode:
    """Play one episode at `PROBLEM`."""
    return await play_parts(
        parts_with(
            env or EchoEnv(), provider, FeedbackConfig(on_error=on_error), reward, **episode
        ),
        policy,
        session_id=session_id,
        validate=validate,
    )


async def play_parts(
    parts,
    policy,
    *,
    session_id=0,
    group=None,
    validate=False,
    seed_of=seed_of_place,
    problem=PROBLEM,
    **options,
) -> Episode:
    """Play one episode of `parts`; `options` are of `EpisodePlayer`."""
    return await EpisodePlayer(
        parts,
        policy,
        problem,
        QUESTION,
        session_id=session_id,
        validate=validate,
        seed_of=seed_of,
        group=group,
        **options,
    ).play()


def stops(episode: Episode) -> list[str | None]:
    """Why each turn was the last of its line, in order."""
    return [turn.stop for turn in episode.turns]
