"""docs/environments.md shows what some environments say today, each by the command above it, and
names the command of the others.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rltf_verl.envs import env_names
from tests.support.commands import ran, rltf

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "environments.md"
EXAMPLES = re.findall(
    r"<!-- (rltf env show [^\n]*) -->\n\n(.*?)\n\n<!-- end -->", DOCS.read_text("utf-8"), re.DOTALL
)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_is_what_the_command_prints(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = ran(*shlex.split(command)[1:])
    assert result.stdout.strip() == shown, f"write it anew: {command}"


@pytest.mark.nightly
def test_every_environment_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {shlex.split(command)[3] for command, _ in EXAMPLES}
    assert shown
    others = re.findall(
        r"`(\w+[^`\n]*)`",
        DOCS.read_text("utf-8").partition("for the others:")[2].partition("###")[0],
    )
    for command in others:
        monkeypatch.chdir(ROOT)
        result = ran("env", "show", *shlex.split(command))
        assert "The first prompt:" in result.stdout
    named = {command.split()[0] for command in others}
    assert shown | named == set(env_names()) - {"reward_function"}, "which makes no problems"


def test_a_wrong_answer_has_to_be_wrong() -> None:
    refusal = rltf("env", "show", "binary_matrix", "--wrong", "0 1 2 3\n1 2 3 4\n2 3 4 5\n3 4 5 6")
    assert "is a right answer" in refusal.stderr
    right = rltf("env", "show", "binary_matrix", "--wrong", "\\boxed{1}")
    assert "The answer is not a 4 by 4 matrix." in right.stdout


def test_an_environment_that_asks_for_no_box(tmp_path: Path) -> None:
    """The one of the docs: its own words are wrong answers, and its second prompt asks for none."""
    (tmp_path / "mine.py").write_text(
        re.findall(r"```python\n(# mine.*?)```", DOCS.read_text("utf-8"), re.S)[0]
    )
    shown = rltf("env", "show", f"{tmp_path}/mine.py:Mine")
    assert "A wrong answer:\n\n~~~text\n2\n~~~" in shown.output
    checked = ran("env", "check", f"{tmp_path}/mine.py:Mine")
    assert "Give the answer in the form that the question asks for." in checked.output
    assert "boxed" not in checked.output
