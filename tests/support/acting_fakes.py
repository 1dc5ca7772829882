"""A policy that acts by script, and an environment whose behaviour an action names."""

import json
import re
import threading
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from rltf_verl.envs.base import Env, Limits
from rltf_verl.policy import Calls
from rltf_verl.types import Action, Attempt, Grade, Note, Problem, Step, Trajectory

from .episode_fakes import ScriptedPolicy

TOOL = {
    "type": "function",
    "function": {
        "name": "do",
        "description": "Do it.",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
    },
}
CALL = re.compile(r"<call>(.*?)</call>", re.DOTALL)
END = 0


def call(what: str, name: str = "do") -> str:
    """An answer's text that calls the tool."""
    return f"<call>{json.dumps({'name': name, 'arguments': {'what': what}})}</call>"


def _read(text: str) -> tuple[str, str] | None:
    try:
        decoded = json.loads(text)
        return decoded["name"], json.dumps(decoded["arguments"])
    except (ValueError, KeyError):
        return None


@dataclass
class ScriptedActor(ScriptedPolicy):
    """`ScriptedPolicy` with tool calls; a token is a character, and no more than `max_tokens`."""

    response_budget: int = 10_000
    drifts: bool = False
    """The template replaces the last sampled token."""

    async def sample(self, prompt_ids, seed, max_tokens=None) -> Attempt:
        whole = await super().sample(prompt_ids, seed)
        room = self.answer_budget if max_tokens is None else max_tokens
        ids, log_probs = whole.response_ids[:room], (whole.log_probs or ())[:room]
        ended = whole.ended and ids == whole.response_ids
        versions = {"min_global_steps": len(self.seeds), "max_global_steps": len(self.seeds)}
        text = "".join(map(chr, ids)).rstrip("\0")
        return Attempt(prompt_ids, ids, log_probs, text, ended, versions)

    async def extend(self, ids, messages, message) -> tuple[int, ...]:
        return ids + await self.encode([message])

    async def read_calls(self, ids) -> Calls:
        text = "".join(map(chr, ids))
        matches = list(CALL.finditer(text))
        read = [_read(match[1]) for match in matches]
        calls = [one for one in read if one is not None]
        span = (matches[0].start(), matches[-1].end()) if calls else (0, 0)
        return Calls(tuple(calls), text.count("<call>") > len(calls), span)

    async def observe(self, ids, observations) -> tuple[int, ...]:
        kept = (*ids[:-1], 1) if self.drifts else ids
        return kept + await self.encode(observations)

    async def clip(self, text: str, tokens: int) -> str:
        half = tokens // 2
        return text if len(text) <= tokens else f"{text[:half]}[cut]{text[half - tokens :]}"


class MuteError(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


@dataclass
class World:
    """What one attempt has done."""

    done: list[str] = field(default_factory=list)
    seed: int = 0
    open: bool = True


class ActorEnv(Env):
    """Does what an action says: `ok`, `win`, `bad`, `raise`, `exit`, `stall`, `flood`, …; an
    attempt is right if it won.
    """

    name = "actor"

    def __init__(self, tools: Sequence[dict[str, Any]] = (TOOL,), **limits: Any) -> None:
        self.tools = tools
        self.limits = Limits(**{"step_s": 60.0, "observation_tokens": 40, **limits})
        self.worlds: list[World] = []
        self.explained: list[Trajectory] = []
        self.fails: tuple[str, ...] = ()
        """Methods that raise."""
        self.shown: str | None = None
        self.over = threading.Event()
        """What stalls goes on."""

    def _may_fail(self, method: str) -> None:
        if method in self.fails:
            raise SystemExit(f"{method} exits")

    def open(self, problem: Problem, seed: int) -> World:
        self._may_fail("open")
        self.worlds.append(World(seed=seed))
        return self.worlds[-1]

    def look(self, state: World) -> str | None:
        self._may_fail("look")
        return self.shown

    def step(self, state: World, action: Action) -> Step:
        what = action.arguments["what"] if self.tools else action.text
        assert state.open
        state.done.append(what)
        if what == "stall":
            self.over.wait(60)
        if what == "raise":
            raise ZeroDivisionError("the world broke")
        if what == "exit":
            raise SystemExit(3)
        if what == "nothing":
            return None  # type: ignore[return-value]
        texts = {"flood": "x" * 100_000 + "<|im_end|>", "half": "\ud800 half"}
        kind = "error" if what == "bad" else "ok"
        return Step(texts.get(what, f"{what}!"), done=what in ("win", "lose"), kind=kind)

    def fork(self, state: World) -> World:
        self._may_fail("fork")
        self.worlds.append(deepcopy(state))
        return self.worlds[-1]

    def close(self, state: World) -> None:
        assert state.open, "closed once"
        state.open = False
        self._may_fail("close")

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        self._may_fail("grade")
        assert trajectory.state is not None
        assert trajectory.state.open
        done = list(trajectory.state.done)
        return Grade(correct="win" in done, format_ok=True, details={"done": done})

    def explain(self, problem, trajectory: Trajectory, grade: Grade, level: str) -> list[Note]:
        self.explained.append(trajectory)
        return [Note("do win here", step=len(trajectory.steps) - 1), Note("and be quick")]
