"""The command line: exit codes, one line for what a user can mend, text of models printed as it is;
`rltf feedback …` against a judge on loopback.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rltf_verl.data.provenance import read_provenance
from rltf_verl.runlog.episodes import EpisodeLog
from rltf_verl.tools.cli.app import app
from rltf_verl.tools.cli.common import parse_options
from rltf_verl.types import Episode, Problem
from tests.support.acting import OFFICE
from tests.support.commands import ran, refused, rltf
from tests.support.judge.server import JudgeServer
from tests.support.log_records import line, write


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
    _, *words = shlex.split(read_provenance(tmp_path / "a" / "train.parquet")["command"])
    ran(*words, "--out", tmp_path / "b")
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
        (["feedback", "try", "style=hint"], "rltf.feedback.endpoint.base_url=None"),
        (["feedback", "try", "endpoint.modle=m"], "Did you mean 'model'?"),
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
    for step in (1, 2):
        write(tmp_path / "episodes", [line("1", "42", stop="solved")], step=step)
    for words in (("--step", 2), ("--num", 1)):
        shown = ran("inspect", tmp_path, *words).stdout
        assert "step 2 train" in shown
        assert "look at row two" in shown
        assert "step 1" not in shown
    assert rltf("inspect", tmp_path, "--step", 9).exit_code == 1


def test_methods_in_a_pipe_are_one_line_each_and_compose_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "hydra", None)
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = CliRunner().invoke(app, ["methods"], catch_exceptions=False).stdout.splitlines()
    assert any(re.fullmatch(r"sd +RLTF-SD: multi-turn GRPO plus .*", line) for line in lines)
    assert {"ufo", "release/sd"} <= {line.split()[0] for line in lines}


def test_train_answers_with_the_line_that_trains():
    words = ["--config-name=rltf", "rltf/method=sd", "rltf.teacher.kind={name: ema}"]
    line = shlex.join(["python", "-m", "verl.trainer.main_ppo", *words])
    assert refused("train", *words).endswith(f"{line}\n")


def test_help_loads_nothing_heavy():
    code = "import sys, rltf_verl.tools.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "verl", "ray", "pandas", "numpy", "pyarrow", "transformers", "hydra"}
    assert not heavy & set(done.stdout.split())


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-W", "ignore", "-m", "rltf_verl.tools.cli.app", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert b"rror" not in running.stderr.read()


def test_adopt_writes_a_script_or_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launch = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
    Path("run.sh").write_text(f'{launch} actor_rollout_ref.rollout.name=vllm "$@"\n')
    ran("adopt", "run.sh", "--method", "grpo")
    assert "rltf/method=grpo" in Path("run_rltf.sh").read_text()
    assert "run_rltf.sh: exists" in refused("adopt", "run.sh")
    assert "missing.sh" in refused("adopt", "missing.sh")
    assert "s3cret" not in refused("adopt", "-o", "x", "run.sh", "+env.MY_KEY=[s3cret")


OWN = "rltf_verl.envs.binary_matrix.env:BinaryMatrix"
DATA = {"matrix": [[0, 1], [1, 1]], "solution": [[0, 1], [1, 2]], "n": 2}


def endpoint(server: JudgeServer) -> list[str]:
    return [f"endpoint.base_url={server.url}", "endpoint.model=m", "limits.max_attempts=1"]


def test_try_shows_prompt_reply_feedback_time_and_cost(server: JudgeServer) -> None:
    words = ("style=guide", "price.prompt=1", "env.n_max=3", "--num", 2)
    result = ran("feedback", "try", *endpoint(server), *words)
    assert len(server.bodies) == 2
    for part in ("no_marker", "100 + 20 tokens · cost 0.000100", "no leak found"):
        assert part in result.stdout


def test_try_with_real_attempts_from_an_episode_log(server: JudgeServer, tmp_path: Path) -> None:
    server.reply = lambda body: "Thinking: x\nCritique: it is 0 1 / 1 2, of course"
    EpisodeLog(tmp_path, "w").append(
        Episode(Problem("binary_matrix", 7, DATA, "0 1\n1 2"), 0, line("1")),
        question="what?",
        step=1,
        validate=False,
        uid="u",
    )
    result = ran("feedback", "try", *endpoint(server), "--log", tmp_path)
    assert "so 1" in result.stdout
    assert "GIVES THE ANSWER AWAY (answer: 0 1 / 1 2" in result.stdout
    assert "wrong attempts 1; replies that give the answer away 1, that call" in result.stdout
    server.reply = lambda body: "Critique: The student's attempt is correct. It is well written."
    result = ran("feedback", "try", *endpoint(server), "--log", tmp_path)
    assert "CALLS A WRONG ATTEMPT RIGHT" in result.stdout
    (tmp_path / "none").mkdir()
    ran("feedback", "try", *endpoint(server), "--log", tmp_path, "--env", OWN)
    for words, part in (
        ((tmp_path, "--env", "knights_knaves"), "holds problems of binary_matrix"),
        ((tmp_path, "--env", OFFICE), "its attempts have steps"),
        ((tmp_path, "--env", "no_such"), "rltf.env.name='no_such'"),
        ((tmp_path / "none",), "no wrong attempt in it"),
        ((tmp_path / "no",), "no such folder"),
    ):
        assert part in refused("feedback", "try", *endpoint(server), "--log", *words)


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        ("ok", "no feedback in the judge's reply"),
        ("500", "server_error: HTTP 500"),
    ],
)
def test_try_says_why_there_is_no_feedback(server: JudgeServer, reply: str, part: str) -> None:
    server.reply = lambda body: ("The", "length")
    server.script = [reply]
    result = rltf("feedback", "try", *endpoint(server), "--num", 1)
    assert result.exit_code == 1, result.stdout
    assert part in result.stdout
