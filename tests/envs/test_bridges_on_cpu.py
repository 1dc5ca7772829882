"""Environments of others: Gymnasium's shape, SkyRL-gym's, TRL's objects, textarena, BFCL."""

import random
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import LEVELS
from rltf_verl.registry import load
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Action
from tests.support.acting import call, played

BFCL = "docs/examples/bfcl.py:Bfcl"
GAMES = '''
import random


class Guess:
    """Guess a digit that the module `random` draws, as careless environments do."""

    def __init__(self, hint="no"):
        self.hint = hint

    def reset(self, seed=None):
        random.seed(seed)
        self.secret = random.randint(0, 9)
        return f"Guess a digit ({seed}).", {}

    def step(self, text):
        right = text == str(self.secret)
        info = {} if right else {"feedback": self.hint}
        return f"Luck: {random.random()}", float(right), right, False, info


class Tenths(Guess):
    def step(self, text):
        return "", 0.1, False, False, {}


class Stalls(Guess):
    def step(self, text):
        if text == "stall":
            self.begun.set()
            self.ends.wait()
        return "", 1.0, True, False, {}


class Flaky(Guess):
    resets = closed = 0

    def reset(self, seed=None):
        Flaky.resets += 1
        if Flaky.resets > 1:
            raise RuntimeError("try later")
        return super().reset(seed)

    def close(self):
        Flaky.closed += 1


class Bare:
    def reset(self, seed=None):
        return "Guess"


class Chat:
    """SkyRL-gym's shape."""

    def __init__(self, row):
        self.wanted = row["answer"]

    def init(self, prompt):
        return prompt, {}

    def step(self, text):
        right = text == self.wanted
        message = {"role": "user", "content": "yes" if right else "no"}
        return {"observations": [message], "reward": float(right), "done": right, "metadata": {}}


class Counter:
    """TRL's shape."""

    closed = 0

    def reset(self, **row):
        self.value, self.wanted = 0, row.get("wanted", 2)
        return f" Reach {self.wanted}."

    def add(self, number: int) -> str:
        """
        Add to the counter.

        Args:
            number: What to add.
        """
        if number > 5:
            raise ValueError("too much")
        self.value += number
        return str(self.value)

    async def show(self) -> str:
        """Show the counter."""
        return str(self.value)

    def files(self) -> list[str]:
        """List two files."""
        return ["a", "b"]

    def get_reward(self) -> float:
        return float(self.value == self.wanted)

    def close(self):
        Counter.closed += 1

    def _inner(self):
        pass
'''


@pytest.fixture
def games(tmp_path: Path) -> str:
    """A file of environments that knows nothing of us."""
    file = tmp_path / "games.py"
    file.write_text(GAMES)
    return str(file)


def kept(env: Any) -> bool:
    return not any(verdict.broken for verdict in check_env(env, num_problems=6, num_hostile=60))


def test_an_environment_in_gymnasiums_shape(games: str) -> None:
    kwargs = {"hint": "not that"}
    env: Any = make_env("gym_text", factory=f"{games}:Guess", kwargs=kwargs, global_random=True)
    assert kept(env)
    problem = env.build(0, 1, 1).train[0]
    assert env.prompt(problem).startswith("Guess a digit (")
    right = str(env.open(problem, 0).made.secret)
    trajectory = played(env, problem, [Action("no digit"), Action(right)])
    grade = env.grade(problem, trajectory)
    assert (grade.correct, grade.score, trajectory.steps[1].results[0].done) == (True, 1, True)

    trajectory = played(env, problem, [Action("x")])
    grade = env.grade(problem, trajectory)
    notes = {level: env.explain(problem, trajectory, grade, level) for level in LEVELS}
    assert [(note.text, note.step) for note in notes["hint"]] == [("not that", 0)]
    assert [note.step for note in notes["location"]] == [0]
    silent = env.grade(problem, played(env, problem, []))
    assert "Its score is 0." in env.explain(problem, trajectory, silent, "hint")[0].text


def test_ten_tenths_are_a_whole_reward(games: str) -> None:
    env: Any = make_env("gym_text", factory=f"{games}:Tenths")
    problem = env.build(0, 1, 1).train[0]
    assert env.grade(problem, played(env, problem, [Action("on")] * 10)).correct
    assert not env.grade(problem, played(env, problem, [Action("on")] * 9)).correct


def test_a_seed_of_the_whole_process_stays_with_its_attempt(games: str) -> None:
    env: Any = make_env("gym_text", factory=f"{games}:Guess", global_random=True)
    random.seed(1)
    ours = [random.random() for _ in range(3)]
    random.seed(1)
    problem = env.build(0, 1, 0).train[0]
    seen = [random.random()]
    one, other = env.open(problem, 0), env.open(problem, 0)
    seen.append(random.random())
    first = [env.step(one, Action("x")).observation for _ in range(2)]
    seen.append(random.random())
    assert [env.step(other, Action("x")).observation for _ in range(2)] == first
    assert seen == ours
    careless: Any = make_env("gym_text", factory=f"{games}:Guess")
    assert not kept(careless)


def test_an_attempt_that_stalls_holds_up_no_other_one(games: str) -> None:
    env: Any = make_env("gym_text", factory=f"{games}:Stalls", global_random=True, step_s=0.05)
    problem = env.build(0, 1, 0).train[0]
    begun, ends, stalled = Event(), Event(), env.open(problem, 0)
    stalled.made.begun, stalled.made.ends = begun, ends
    thread = Thread(target=env.step, args=(stalled, Action("stall")), daemon=True)
    thread.start()
    assert begun.wait(60)
    random.seed(1)
    ours = random.getstate()
    assert env.step(env.open(problem, 0), Action("go on")).done
    ends.set()
    thread.join()
    assert random.getstate() == ours


def test_a_reset_that_returns_a_text_is_refused(games: str) -> None:
    env: Any = make_env("gym_text", factory=f"{games}:Bare")
    with pytest.raises(TypeError, match="reset"):
        env.build(0, 1, 0)


def test_an_object_that_does_not_start_is_closed(games: str) -> None:
    env: Any = make_env("gym_text", factory=f"{games}:Flaky")
    with pytest.raises(RuntimeError, match="try later"):
        env.open(env.build(0, 1, 0).train[0], 0)
    assert env._factory.closed == 2


def test_an_environment_in_skyrls_shape(games: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": [{"role": "user", "content": "Say hi"}], "answer": "hi"}\n' * 2)
    env: Any = make_env("gym_text", factory=f"{games}:Chat", path=str(rows))
    problem = env.build(0, 1, 1).train[0]
    assert env.prompt(problem) == "Say hi"
    trajectory = played(env, problem, [Action("ho"), Action("hi")])
    assert [step.results[0].observation for step in trajectory.steps[:2]] == ["no", "yes"]
    assert env.grade(problem, trajectory).correct
    with pytest.raises(ValueError, match=r"rltf\.env\.path=.*2 rows, 2 \+ 1 are asked for"):
        env.build(0, 2, 1)


def test_an_object_whose_methods_are_tools(games: str, tmp_path: Path) -> None:
    env: Any = make_env("tool_object", factory=f"{games}:Counter")
    functions = [tool["function"] for tool in env.tools]
    assert [function["name"] for function in functions] == ["add", "files", "show"]
    assert functions[0]["parameters"]["properties"]["number"]["type"] == "integer"
    assert kept(env)
    problem = env.build(0, 1, 1).train[0]
    assert env.prompt(problem) == " Reach 2."
    trajectory = played(env, problem, [call("add", number=2), call("show"), call("add", number=9)])
    results = (step.results[0] for step in trajectory.steps[:-1])
    assert [(result.kind, result.observation) for result in results] == [
        ("ok", "2"),
        ("ok", "2"),
        ("error", "ValueError: too much"),
    ]
    assert env.grade(problem, trajectory).correct
    state = env.open(problem, 0)
    assert env.step(state, call("close")).observation == "The tools are add, files, show."
    assert env.step(state, call("files")).observation == "['a', 'b']"

    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "Count.", "wanted": 4}\n')
    env = make_env("tool_object", factory=f"{games}:Counter", path=str(rows))
    problem = env.build(0, 1, 0).train[0]
    assert env.prompt(problem) == "Count. Reach 4."
    assert env.grade(problem, played(env, problem, [call("add", number=4)])).correct


@pytest.mark.parametrize("game", ["Minesweeper", "GuessTheNumber", "2048", "Countdown"])
def test_games_of_textarena(game: str) -> None:
    pytest.importorskip("textarena")
    env: Any = make_env("textarena", game=game)
    assert kept(env)
    problem = env.build(0, 1, 0).train[0]
    assert "[Player]" not in env.prompt(problem)
    trajectory = played(env, problem, [Action("nonsense")] * 2)
    last = trajectory.steps[1].results[0]
    if last.done:  # the second invalid move in a row ends most games
        grade = env.grade(problem, trajectory)
        assert not grade.correct
        assert "nvalid" in env.explain(problem, trajectory, grade, "hint")[0].text


def test_a_game_is_won() -> None:
    pytest.importorskip("textarena")
    env: Any = make_env("textarena", game="GuessTheNumber", steps=20)
    problem = env.build(0, 1, 0).train[0]
    state = env.open(problem, 0)
    for number in range(1, 21):
        if env.step(state, Action(f"[{number}]")).done:
            break
    assert state.reward > 0
    lost, wrong = env.open(problem, 0), [other for other in range(1, 21) if other != number]
    said = [env.step(lost, Action(f"[{other}]")) for other in wrong[:11]]  # all that it lets one
    assert said[-1].done
    assert "Target" not in f"{said}{lost.hints}", "the next attempt has the same seed"


def test_tasks_of_bfcl() -> None:
    pytest.importorskip("bfcl_eval")
    sources = load("rltf.env.name", "docs/examples/bfcl.py:SOURCES")
    env: Any = make_env(BFCL, classes=list(sources))
    problems = env.build(0, 200, 0).train
    for problem in problems:
        assert env.grade(problem, played(env, problem, env.solution(problem))).correct
        assert not env.grade(problem, played(env, problem, [])).correct
    assert kept(env)
    assert {tool["function"]["parameters"]["type"] for tool in env.tools} == {"object"}
    state = env.open(problems[0], 0)
    for name in ("power", "logarithm"):
        big = call(name, base=9, value=9, exponent=9**9, precision=9**9)
        maths: Any = make_env(BFCL, classes=["MathAPI", "GorillaFileSystem"])
        given = next(p for p in maths.build(0, 20, 0).train if "MathAPI" in p.data["classes"])
        assert maths.step(maths.open(given, 0), big).observation.endswith("at most 1000.")
    for hostile in ("_load_scenario", "__class__", "eval", "os.getcwd"):
        assert env.step(state, call(hostile)).kind == "error"
    with pytest.raises(ValueError, match=r"rltf\.env\.classes=\['MathAPI'\]: 0 tasks, 1 \+ 0"):
        make_env(BFCL, classes=["MathAPI"]).build(0, 1, 0)


@pytest.mark.parametrize(
    ("missing", "name", "said"),
    [
        ("bfcl_eval", BFCL, "pip install --no-deps bfcl-eval mpmath"),
        ("textarena", "textarena", r"pip install 'rltf-verl\[textarena\]'"),
    ],
)
def test_what_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, missing: str, name: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=said):
        make_env(name)
