"""One class that environments extend, and a user's class that does not extend it."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import bounded, grade, grade_text
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Problem

PROBLEM = Problem("mine", 0, {}, "42")
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

KEYED = """
class Keyed:
    def __init_subclass__(cls, *, key): pass
"""


def own(folder: Path, head: str, body: str = BODY) -> Any:
    imports = "from dataclasses import dataclass\nfrom rltf_verl.envs.base import *\n"
    types = (
        "from rltf_verl.types import *\nfrom rltf_verl.envs.base import Env, Candidate, Splits\n"
    )
    (folder / "mine.py").write_text(f"{imports}{types}\n{head}\n{body}")
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
        own(tmp_path, f"{KEYED}\nclass Mine(Keyed, key=1):")


@pytest.mark.parametrize("base", [Env, FeedbackProvider])
def test_the_example_of_the_docstring_is_a_whole_one(tmp_path: Path, base: type) -> None:
    block = re.search(r"^( {8}class (\w+).*\n(?:(?: {8}.*)?\n)*)", base.__doc__ or "", re.MULTILINE)
    assert block is not None
    modules = ("envs.base", "feedback.base", "types")
    imports = "".join(f"from rltf_verl.{module} import *\n" for module in modules)
    (tmp_path / "mine.py").write_text(imports + dedent(block[1]))
    where = f"{tmp_path}/mine.py:{block[2]}"
    if base is FeedbackProvider:
        assert make_provider(where, limit=3).limit == 3
    else:
        assert [v for v in check_env(make_env(where), num_problems=8) if v.broken] == []


def test_a_method_that_is_needed_and_missing_is_named() -> None:
    class Half(Env):
        name = "half"

    with pytest.raises(NotImplementedError, match="Half has no method `grade`"):
        Half().grade(PROBLEM, "")


async def test_a_users_provider_has_the_flags_of_the_base(tmp_path: Path) -> None:
    body = 'class Mine:\n    name, sees_reference, constant = "mine", False, False\n'
    (tmp_path / "mine.py").write_text(body)
    provider = make_provider(f"{tmp_path}/mine.py:Mine")
    assert isinstance(provider, FeedbackProvider)
    assert not any((provider.tells_answer, provider.self_written, provider.judges))
    assert provider.subject is None
