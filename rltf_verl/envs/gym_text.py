"""Environments of others: `reset` and `step` in Gymnasium's shape, or an object whose methods are
tools (TRL's).

A factory makes a fresh object for each attempt. If it has an argument `row`, it gets the problem's
row of `path`.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from threading import Condition
from typing import Annotated, Any

from rltf_verl.envs.base import (
    INCORRECT,
    Env,
    FeedbackLevel,
    Limits,
    Splits,
    number_problems,
    require_counts,
    split_items,
    verdict,
)
from rltf_verl.envs.files import read_rows
from rltf_verl.kinds import Within
from rltf_verl.registry import load
from rltf_verl.types import Action, Grade, Note, Problem, Step, Trajectory

NO_TOOLS = ("reset", "get_reward", "close")
"""Public methods of a TRL object that are none of its tools."""


class ExpiringLock:
    """A lock that an owner loses who keeps it for too long: his thread may never end."""

    def __init__(self) -> None:
        self._free, self._until = Condition(), 0.0
        self._owner: object | None = None

    @contextmanager
    def turn(self, seconds: float) -> Iterator[Callable[[], bool]]:
        """Gives whether the turn is not lost yet."""
        # New for each turn: a thread that comes back late must not pass for the owner.
        me = object()
        with self._free:
            while self._owner is not None and (left := self._until - time.monotonic()) > 0:
                self._free.wait(left)
            self._owner, self._until = me, time.monotonic() + seconds
        try:
            yield lambda: self._owner is me
        finally:
            with self._free:
                if self._owner is me:
                    self._owner = None
                    self._free.notify()


_one_at_a_time = ExpiringLock()


@dataclass
class Game:
    """The state of one attempt."""

    made: Any
    """The factory's product."""
    reward: float = 0.0
    hints: list[tuple[int, str]] = field(default_factory=list)
    """The environment's words on a step, by `info["feedback"]`."""
    num_steps: int = 0
    random_state: Any = None
    """State of the module `random`, for an environment that uses it."""


class GymText(Env):
    """The environment `gym_text`: the whole answer is the action. `Problem.data` holds `seed`,
    `row` and `question`, which is the first observation.

    It knows `reset(seed) -> (text, info)` with `step(text) -> (text, reward, terminated, truncated,
    info)`, and SkyRL-gym's `init(row["prompt"])` with a `step` that returns a mapping. The score is
    the sum of all rewards; `info["feedback"]` is a note on the step.

    Args:
        factory: makes an environment: `module:name` or `./file.py:name`.
        kwargs: its arguments.
        path: a row for each problem: a .parquet, .json, .jsonl or .csv file; null: only seeds.
        correct_from: least score of a right attempt.
        steps: most actions of an attempt.
        step_s: most seconds of an action.
        observation_tokens: most tokens of an observation.
        global_random: the environment draws from the module `random`: each attempt then has its own
            state of it, and one action is done at a time.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "gym_text"

    def __init__(
        self,
        factory: str,
        kwargs: Mapping[str, Any] | None = None,
        path: str | None = None,
        correct_from: float = 1.0,
        steps: Annotated[int, Within(1, 10_000)] = 16,
        step_s: Annotated[float, Within(above=0)] = 30.0,
        observation_tokens: Annotated[int, Within(1, 1_000_000)] = 256,
        global_random: bool = False,
    ) -> None:
        self._factory, self._kwargs = load("rltf.env.factory", factory), dict(kwargs or {})
        self._path, self._correct_from, self._global_random = path, correct_from, global_random
        self.limits = Limits(steps, step_s, steps * step_s, observation_tokens)
        self.tools = self._tools()

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """A seed for each problem, and a row if there is a file; the first ones are the test split.

        Raises:
            ValueError: a negative number, or too few rows.
        """
        require_counts(num_train, num_test)
        num = num_train + num_test
        seeds = random.Random(seed).sample(range(2**31), num)
        rows: list[Mapping[str, Any]] = [{} for _ in seeds]
        if self._path is not None:
            rows = list(islice(read_rows("rltf.env.path", self._path, seed), num))
        # Not strict: too few rows are named by `split_items`.
        items = list(zip(seeds, rows, strict=False))
        train, test = split_items(f"rltf.env.path={self._path}", "rows", items, num_train, num_test)
        # The test split first: its objects are the first ones that the factory makes.
        made = [self._data(*item) for item in (*test, *train)]
        return number_problems(
            lambda i, data: Problem(self.name, i, data, reference=""),
            made[num_test:],
            made[:num_test],
        )

    def prompt(self, problem: Problem) -> str:
        """The first observation."""
        return str(problem.data["question"])

    def open(self, problem: Problem, seed: int) -> Game:
        """A new object, with the problem's own seed: its prompt shows what that gives."""
        return self._open(problem.data["seed"], problem.data["row"])[0]

    def step(self, state: Game, action: Action) -> Step:
        """Hand the answer on. Raises whatever the environment raises."""
        with self._own_random(state):
            answer = state.made.step(action.text)
        if isinstance(answer, Mapping):
            shown, reward, done = answer["observations"], answer["reward"], answer["done"]
            info = answer.get("metadata")
        else:
            shown, reward, terminated, truncated, info = answer
            done = terminated or truncated
        state.reward += float(reward)
        if info and info.get("feedback"):
            state.hints.append((state.num_steps, str(info["feedback"])))
        state.num_steps += 1
        return Step(_text(shown), bool(done), score=float(reward))

    def close(self, state: Game) -> None:
        """Close the object if it can be closed."""
        if hasattr(state.made, "close"):
            with self._own_random(state):
                state.made.close()

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        """The score is what the environment paid."""
        reward, state = self._reward(trajectory.state), trajectory.state
        return Grade(
            # Ten steps that pay 0.1 are 0.9999999999999999.
            correct=round(reward, 9) >= self._correct_from,
            format_ok=any(step.actions for step in trajectory.steps),
            score=reward,
            details={"hints": list(map(list, state.hints))},
        )

    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: FeedbackLevel
    ) -> Sequence[Note]:
        """The steps with feedback of the environment (`location`), and its words (`hint`, `full`);
        otherwise the reward.
        """
        if grade.correct or level == "verdict":
            return [Note(verdict(grade))]
        notes = [
            Note("Think again about this step." if level == "location" else text, step)
            for step, text in grade.details["hints"]
        ]
        return notes or [Note(f"{INCORRECT} Its score is {grade.score:g}.")]

    def _data(self, seed: int, row: Mapping[str, Any]) -> dict[str, Any]:
        state, shown = self._open(seed, row)
        self.close(state)
        return {"seed": seed, "row": dict(row), "question": shown}

    def _open(self, seed: int, row: Mapping[str, Any]) -> tuple[Game, str]:
        state = Game(made=None)
        try:
            with self._own_random(state, self.limits.attempt_s):
                takes_row = "row" in inspect.signature(self._factory).parameters
                state.made = self._factory(**self._kwargs, **({"row": row} if takes_row else {}))
                return state, self._start(state.made, seed, row)
        except BaseException:
            self.close(state)
            raise

    def _start(self, made: Any, seed: int, row: Mapping[str, Any]) -> str:
        """The first prompt."""
        is_skyrl = hasattr(made, "init")
        answer = made.init(row["prompt"]) if is_skyrl else made.reset(seed=seed)
        if isinstance(answer, str):  # its first letter would be the prompt
            raise TypeError(f"{'init' if is_skyrl else 'reset'}() must return (observation, info)")
        return _text(answer[0])

    def _tools(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def _reward(self, state: Game) -> float:
        return state.reward

    @contextmanager
    def _own_random(self, state: Game, seconds: float | None = None) -> Iterator[None]:
        if not self._global_random:
            yield
            return
        with _one_at_a_time.turn(seconds or self.limits.step_s) as has_turn:
            # Each attempt has its own numbers, as if it had the process for itself.
            ours = random.getstate()
            if state.random_state is not None:
                random.setstate(state.random_state)
            try:
                yield
            finally:
                # An attempt that lost its turn must not touch the state of the next one.
                if has_turn():
                    state.random_state = random.getstate()
                    random.setstate(ours)


class ToolObject(GymText):
    """The environment `tool_object`: the public methods of an object are the tools, as of TRL's
    `environment_factory`; `reset(**row)` returns the end of the prompt or None, and `get_reward()`
    the score. A method's exception is an observation. Without a file a row is `{"seed": …}`.
    Options are those of `GymText`.
    """

    name = "tool_object"

    def step(self, state: Game, action: Action) -> Step:
        """Call the method."""
        names = [tool["function"]["name"] for tool in self.tools]
        if action.tool is None or action.tool not in names:
            return Step(f"The tools are {', '.join(names)}.", kind="error")
        try:
            with self._own_random(state):
                return Step(_text(_await(getattr(state.made, action.tool)(**action.arguments))))
        except Exception as error:  # TRL tells the policy whatever a tool raises
            return Step(f"{type(error).__name__}: {error}", kind="error")

    def _tools(self) -> Sequence[Mapping[str, Any]]:
        """The methods' schemas, as TRL makes them."""
        from transformers.utils.chat_template_utils import get_json_schema

        made = self._factory(**self._kwargs)
        methods = inspect.getmembers(type(made), inspect.isfunction)
        names = [name for name, _ in methods if name[0] != "_" and name not in NO_TOOLS]
        schemas = [get_json_schema(getattr(made, name)) for name in names]
        self.close(Game(made))
        return schemas

    def _start(self, made: Any, seed: int, row: Mapping[str, Any]) -> str:
        # An object without a file draws its task from the seed.
        row = row or {"seed": seed}
        return _text(row.get("prompt")) + _text(made.reset(**row))

    def _reward(self, state: Game) -> float:
        return float(_await(state.made.get_reward()))


def _await(value: Any) -> Any:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _text(observation: Any) -> str:
    """A text, or the contents of messages."""
    is_list = isinstance(observation, list) and observation
    if is_list and all(isinstance(one, Mapping) and "content" in one for one in observation):
        return "\n".join(str(message["content"]) for message in observation)
    return "" if observation is None else str(observation)
