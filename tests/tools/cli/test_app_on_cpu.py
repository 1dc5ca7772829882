"""The command line: exit codes, one line for what a user can mend, and text of models printed as it
is.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rltf_verl.data.provenance import read_provenance
from rltf_verl.tools.cli.app import app
from rltf_verl.tools.cli.common import parse_options
from tests.support.commands import ran, refused, rltf
from tests.support.log_records import turn, write


def test_a_dataset_is_rebuilt_by_the_command_in_its_provenance(tmp_path: Path) -> None:
    ran(
        "data",
        "build",
        "binary_matrix",
        "--out",
        tmp_path / "a",
        "--seed",
        3,
        "--num-train",
        4,
        "--num-test",
        2,
        "style=compact",
        "n_max=4",
    )
    command = shlex.split(read_provenance(tmp_path / "a" / "train.parquet")["command"])
    assert command[0] == "rltf"
    ran(*command[1:], "--out", tmp_path / "b")
    for name in ("train.parquet", "test.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["data", "build", "binary_matri"], "Did you mean 'binary_matrix'?"),
        (["data", "build", "binary_matrix", "n_mx=3"], "Did you mean 'n_max'?"),
        (["data", "build", "binary_matrix", "n_max"], "are written key=value"),
        (["data", "build", "binary_matrix", "--out", __file__], "File exists"),
        (["inspect", "no/such/folder"], "no such folder"),
    ],
)
def test_what_a_user_can_fix_is_one_line(words: list[str], part: str) -> None:
    assert part in refused(*words)


def test_option_values() -> None:
    words = [
        "a=1",
        "b=1e-3",
        "c=true",
        "d.e=null",
        "f=[1, x]",
        "g=compact",
        "h=x=y",
        "i={id: game:Guess-v0}",
    ]
    values = {
        "a": 1,
        "b": 1e-3,
        "c": True,
        "d": {"e": None},
        "f": [1, "x"],
        "g": "compact",
        "h": "x=y",
        "i": {"id": "game:Guess-v0"},
    }
    assert parse_options(words) == values


def test_inspect(tmp_path: Path) -> None:
    odd = turn("1", text="[bold]not markup[/bold] [/nonsense] \x1b[2J")
    for step in (1, 2):
        write(tmp_path, [(odd, turn("42", parent=0, stop="solved"))], step=step)
    result = ran("inspect", tmp_path, "--step", 2)
    for part in (
        "step 2 train",
        "[bold]not markup[/bold] [/nonsense]",
        "look at row two",
        "[judge]",
        "right",
        "42",
    ):
        assert part in result.stdout
    assert "\x1b[2J" not in result.stdout
    assert "step 1" not in result.stdout
    newest = rltf("inspect", tmp_path, "--num", 1).stdout
    assert "step 2 train" in newest
    assert "1 of 2 episodes" in newest
    assert rltf("inspect", tmp_path, "--step", 9).exit_code == 1


def test_presets_in_a_pipe_are_one_line_each_and_compose_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "hydra", None)
    lines = rltf("presets").stdout.splitlines()
    assert any(re.fullmatch(r"sd +RLTF-SD: multi-turn GRPO plus .*", line) for line in lines)
    assert {"ufo", "release/sd"} <= {line.split()[0] for line in lines}


def test_version_and_completion():
    assert re.fullmatch(r"rltf-verl [\d.]+, verl [\d.]+\n", rltf("--version").stdout)
    words = {"_RLTF_COMPLETE": "complete_bash", "COMP_WORDS": "rltf ad", "COMP_CWORD": "1"}
    assert CliRunner().invoke(app, [], env=words, prog_name="rltf").stdout.split() == ["adopt"]


def test_help_loads_nothing_heavy():
    code = "import sys, rltf_verl.tools.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "verl", "ray", "pandas", "numpy", "pyarrow", "transformers", "hydra"}
    assert not heavy & set(done.stdout.split())


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-W", "ignore", "-m", "rltf_verl.tools.cli.app", "presets"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.stderr.read() == b""


def test_adopt_prints_a_script_or_one_line(tmp_path):
    launch = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
    words = [*launch.split(), "actor_rollout_ref.rollout.name=vllm"]
    out = tmp_path / "new.sh"
    ran("adopt", "--method", "grpo", "-o", out, *words)
    assert "rltf/method=grpo" in out.read_text()
    assert "exists" in rltf("adopt", "-o", out, *words).stderr
    assert 'RUN="rltf adopt -o' in refused("adopt", "run.sh")
    assert "s3cret" not in rltf("adopt", *words, "+env.MY_KEY=[s3cret").stderr
