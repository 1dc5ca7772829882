"""One class that environments extend, a user's class that does not extend it, its options, and the
acting environment of docs/agents.md.
"""

import asyncio
import inspect
import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from rltf_verl.envs import _ENVS, calls, env_names, make_env
from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import attempt_of, bounded, explain, grade, grade_text
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.registry import load
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Grade, Note, Problem

from ..support.acting_fakes import ActorEnv

PROBLEM = Problem("mine", 0, {}, "42")


async def test_a_verdict_may_take_as_long_as_its_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Env):
        judges = (SimpleNamespace(settings=SimpleNamespace(longest_call_s=60.0)),)

        async def agrade(self, problem: Problem, text: str) -> Grade:
            await asyncio.sleep(0.05)
            return Grade(correct=True, format_ok=True)

    monkeypatch.setattr(calls, "JUDGES_S", 0.001)
    assert (await grade(Slow(), PROBLEM, "42")).correct


IMPORTS = """
from dataclasses import dataclass
from rltf_verl.envs.base import Candidate, Env, Splits
from rltf_verl.types import *
"""
BODY = """
    name: str = "mine"
    def build(self, seed, num_train, num_test): return Splits((), ())
    def prompt(self, problem): return "?"
    def grade(self, problem, text): return Grade(text == problem.reference, format_ok=True)
    def explain(self, problem, text, grade, level): return "No."
"""
HEADS = {
    "plain": "class Mine:",
    "slots": "@dataclass(slots=True)\nclass Mine:",
    "frozen": "@dataclass(frozen=True)\nclass Mine:",
    "extends": "class Mine(Env):",
}
ACTS = """
    def open(self, problem, seed): return []
    def step(self, state, action): state.append(action.text); return Step("", done=True)
    def grade(self, problem, trajectory): return Grade(trajectory.state == ["42"], format_ok=True)
"""
OPTIONAL = """
    async def agrade(self, problem, text): return Grade(text == "asked", format_ok=True)
    def candidates(self, problem, text, attempt): return [Candidate(0, 2, text)]
    def data_of(self, question, row): return {}
"""


def own(folder: Path, head: str, body: str = BODY) -> Any:
    (folder / "mine.py").write_text(f"{IMPORTS}\n{head}\n{body}")
    return make_env(f"{folder}/mine.py:Mine")


@pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
async def test_a_users_class_has_what_env_gives(tmp_path: Path, head: str) -> None:
    env = own(tmp_path, head)
    assert isinstance(env, Env)
    assert type(env).__name__ == "Mine"
    assert (await grade(env, PROBLEM, "42")).correct
    assert not any((env.acts, env.grades_async, env.finds_candidates, env.takes_rows))
    assert env.worked_solution(PROBLEM) == env.subset(PROBLEM) == ""
    assert env.trouble() is None
    assert env.judges == env.tools == ()
    assert [leak.kind for leak in find_leaks(env, PROBLEM, "The answer is 42.")] == ["answer"]


@pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
def test_a_class_with_step_plays_trajectories(tmp_path: Path, head: str) -> None:
    env = own(tmp_path, head, BODY + ACTS)
    for one in (env, bounded(env)):
        assert one.acts
        assert [grade_text(one, PROBLEM, text).correct for text in ("42", "41")] == [True, False]
    state = env.open(PROBLEM, 0)
    env.fork(state).append("fork")
    assert state == []
    assert env.look(state) is env.close(state) is None


async def test_what_a_class_has_is_taken(tmp_path: Path) -> None:
    env = own(tmp_path, "class Mine:", BODY + OPTIONAL)
    for one in (env, bounded(env)):
        assert one.grades_async
        assert one.finds_candidates
        assert one.takes_rows
    assert (await grade(env, PROBLEM, "asked")).correct
    assert find_leaks(env, PROBLEM, "42 it is") == []


def test_a_class_that_cannot_get_the_defaults_is_told_to_extend_env(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rltf\.env\.name='.*write class Mine\(Env\)"):
        own(
            tmp_path,
            "class Keyed:\n    def __init_subclass__(cls, *, key): pass\nclass Mine(Keyed, key=1):",
        )


@pytest.mark.parametrize("base", [Env, FeedbackProvider])
def test_the_example_of_the_docstring_is_a_whole_one(tmp_path: Path, base: type) -> None:
    block = re.search(r"^( {8}class (\w+).*\n(?:(?: {8}.*)?\n)*)", base.__doc__ or "", re.MULTILINE)
    assert block is not None
    imports = f"from {base.__module__} import *\nfrom rltf_verl.types import *\n"
    (tmp_path / "mine.py").write_text(imports + dedent(block[1]))
    where = f"{tmp_path}/mine.py:{block[2]}"
    if base is FeedbackProvider:
        assert make_provider(where, limit=3).limit == 3
    else:
        assert [v for v in check_env(make_env(where), num_problems=8) if v.broken] == []


def test_a_method_that_is_needed_and_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match="Env has no method `grade`"):
        Env().grade(PROBLEM, "")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "binary_matrx",
            {},
            r"rltf\.env\.name='binary_matrx'.*binary_matrix.*Did you mean 'binary_matrix'",
        ),
        (
            "binary_matrix",
            {"nmax": 4},
            r"rltf\.env\.nmax=4: binary_matrix has no option 'nmax'; .*mean 'n_max'",
        ),
        ("binary_matrix", {"mode": "strikt"}, r"rltf\.env\.mode='strikt'.*Did you mean 'strict'"),
        ("binary_matrix", {"style": 3}, r"rltf\.env\.style=3.*compact"),
        (
            "binary_matrix",
            {"style": "compact", "mode": "official"},
            r"rltf\.env\.style=compact.*mode=strict",
        ),
        ("binary_matrix", {"n_min": 1}, r"rltf\.env\.n_min=1: must be in \[2, 100\]"),
        (
            "binary_matrix",
            {"n_min": 4, "n_max": 3},
            r"rltf\.env\.n_max=3: must be at least rltf\.env\.n_min=4",
        ),
        ("knights_knaves", {"n_people": 1}, r"rltf\.env\.n_people=1: must be in \[2, 10\]"),
        ("knights_knaves", {"width": 4, "n_people": 2}, r"rltf\.env\.width=4: must be in \[2, 3\]"),
        (
            "knights_knaves",
            {"mode": "official", "style": "compact"},
            r"rltf\.env\.style='compact' .*rltf\.env\.mode='official'",
        ),
        (
            "shortest_path",
            {"rows_min": 7},
            r"rltf\.env\.rows_max=6: must be at least rltf\.env\.rows_min=7",
        ),
        ("shortest_path", {"p_blocked": float("nan")}, r"rltf\.env\.p_blocked=nan"),
        ("writing", {"low": 5, "high": 5}, r"rltf\.env\.high=5 must be above"),
        ("writing", {"threshold": 11}, r"rltf\.env\.threshold=11"),
        (
            "writing",
            {"judges": [{"endpoint": {"base_url": "x", "model": "m"}}]},
            r"rltf\.env\.judges\[0\]\.endpoint\.base_url='x'",
        ),
        ("code", {"sandbox": "none"}, r"rltf\.env\.sandbox='none'"),
        ("code", {"partial": "yes"}, r"rltf\.env\.partial='yes'"),
        ("code", {"url": "http://x"}, r"rltf\.env\.url='http://x' with rltf\.env\.sandbox=b"),
        ("code", {"sandbox": "sandbox_fusion"}, r"rltf\.env\.url=None with rltf\.env\.sandbox="),
        ("corrections", {"judge": {"limts": {}}}, r"^rltf\.env\.judge\.limts"),
        ("textarena", {"game": "Mine"}, r"rltf\.env\.game='Mine'"),
        *(
            (name, {"factory": "???"}, r"rltf\.env\.factory='.*: name it as module:name")
            for name in ("gym_text", "tool_object")
        ),
        ("math", {"source": "gsm8"}, "rltf.env.source='gsm8': is not known.*'gsm8k'"),
        ("math", {"test_sets": ["math50"]}, "rltf.env.test_sets='math50': is not .*'math500'"),
        ("math", {"test_paths": {"aime2025": "x"}}, "rltf.env.test_paths='aime2025': .*, math500"),
        ("math", {"source": "own.jsonl", "path": "x"}, "rltf.env.path='x' is for a named source"),
        ("math", {"mode": "x"}, "rltf.env.mode='x'"),
        ("math", {"timeout_s": 0}, "rltf.env.timeout_s=0"),
        ("math", {"num_workers": 0}, "rltf.env.num_workers=0"),
        *(
            ("reward_function", {"function": function}, f"^rltf.env.function='?{function}")
            for function in ("./none.py:f", "math:pi", "json:JSONDecoder", "json:none")
        ),
    ],
)
def test_bad_options_name_the_config_key(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env(name, **options)


def test_every_environment_has_its_name() -> None:
    for name in {*env_names()} - {"gym_text", "textarena", "tool_object"}:  # they need something
        assert make_env(name).name == name


# What only `rltf data build` needs, and what only exotic data needs.
NOT_IN_YAML = {"reasoning_gym": {"task", "params"}, "binary_matrix": {"n_min", "n_max"}}


@pytest.mark.parametrize(
    "name",
    [
        *("math", "reasoning_gym", "binary_matrix", "reward_function", "code"),
        *("gym_text", "tool_object", "textarena", "instructions"),
    ],
)
def test_options_and_defaults(name: str) -> None:
    folder = Path(__file__).parents[2] / "hydra_configs" / "rltf_verl" / "rltf" / "env"
    written = yaml.safe_load((folder / f"{name}.yaml").read_text("utf-8"))
    options = written.get("env", written)
    assert options.pop("name") == name
    assert name in env_names()
    taken = inspect.signature(load("rltf.env.name", _ENVS[name])).parameters
    defaults = {key: taken[key].default for key in options}
    needed = {key: "???" for key in options if defaults[key] is inspect.Parameter.empty}
    assert {**defaults, **needed} == {
        key: tuple(value) if isinstance(defaults[key], tuple) else value
        for key, value in options.items()
    }
    assert taken.keys() - options.keys() == NOT_IN_YAML.get(name, set())


def test_a_text_is_graded_as_a_trajectory_of_one_answer():
    class Game(ActorEnv):
        def explain(self, problem, trajectory, grade, level):
            return [Note(trajectory.answer, step=0), Note(level)]

    game, problem = Game(tools=()), Problem("actor", 0, {}, "win")
    assert [grade_text(game, problem, word).correct for word in ("win", "lose", "raise")] == [
        True,
        False,
        False,
    ]
    assert not any(world.open for world in game.worlds)
    assert grade_text(game, problem, "raise").error == "ZeroDivisionError: the world broke"
    grade = grade_text(game, problem, "lose")
    text, _ = explain(game, problem, attempt_of(game, "lose"), grade, "hint")
    assert text == "Step 1: lose\nhint"
    assert not grade_text(Game(), problem, "win").correct, "with tools a text is no call"
