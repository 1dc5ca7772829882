"""docs/environments.md shows what an environment says today, and names the others' commands."""

import re
import shlex
from pathlib import Path

import pytest

from rltf_verl.envs import env_names
from tests.support.commands import ran, rltf

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "environments.md"
WITHOUT_EXAMPLE = {"reward_function", "corrections", "gym_text", "tool_object", "textarena", "bfcl"}
"""They make no problems, or need a class or a package of others."""


def _commands() -> list[str]:
    """The words of `rltf env show` that the page names, an environment each."""
    section = DOCS.read_text("utf-8").partition("## Feedback of the verifier")[2]
    examples = section.partition("for example")[2].partition("|")[0].rpartition("Of `")[0]
    return re.findall(r"`(\w+[^`\n]*)`", examples)


def test_the_table_has_what_an_environment_says_at_each_level() -> None:
    shown = ran("env", "show", "binary_matrix", "n_max=3").stdout
    rows = re.findall(
        r"^\| `(verdict|location|hint|full)` \| (?:… )?(.*) \|$", DOCS.read_text(), re.M
    )
    assert len(rows) == 4
    for level, words in rows:
        said = (
            shown.partition(f"`level={level}`")[2].partition("~~~text\n")[2].partition("\n~~~")[0]
        )
        assert said.endswith(words), level


@pytest.mark.nightly
def test_every_environment_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for command in _commands():
        assert "The first prompt:" in ran("env", "show", *shlex.split(command)).stdout
    assert {command.split()[0] for command in _commands()} == set(env_names()) - WITHOUT_EXAMPLE


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
