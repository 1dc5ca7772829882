"""docs/environments.md shows what the environments say today: each example is the output of the
command above it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rltf_verl.cli.app import app
from rltf_verl.envs import env_names
from rltf_verl.report.terminal.environment import fenced

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
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == shown, f"write it anew: {command}"


def test_every_environment_has_an_example() -> None:
    assert {shlex.split(command)[3] for command, _ in EXAMPLES} == set(env_names()) - {
        "reward_function"
    }, "which makes no problems"


def test_a_wrong_answer_has_to_be_wrong() -> None:
    told = CliRunner().invoke(
        app, ["env", "show", "binary_matrix", "--wrong", "0 1 2 3\n1 2 3 4\n2 3 4 5\n3 4 5 6"]
    )
    assert "is a right answer" in told.stderr
    right = CliRunner().invoke(app, ["env", "show", "binary_matrix", "--wrong", "\\boxed{1}"])
    assert "The answer is not a 4 by 4 matrix." in right.stdout


def test_a_block_holds_text_with_fences() -> None:
    assert fenced("~~~\na") == "~~~~text\n~~~\na\n~~~~"
