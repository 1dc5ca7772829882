"""`rltf feedback …` against a judge on loopback."""

from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import EpisodeLog
from rltf_verl.types import Attempt, Episode, Grade, Problem, Turn
from tests.support.commands import ran, refused, rltf
from tests.support.judge.server import JudgeServer

DATA = {"matrix": [[0, 1], [1, 1]], "solution": [[0, 1], [1, 2]], "n": 2}


def endpoint(server: JudgeServer) -> list[str]:
    return [f"endpoint.base_url={server.url}", "endpoint.model=m", "limits.max_attempts=1"]


def test_try_shows_prompt_reply_feedback_time_and_cost(server: JudgeServer) -> None:
    result = ran(
        "feedback",
        "try",
        *endpoint(server),
        "style=guide",
        "price.prompt=1",
        "env.n_max=3",
        "--num",
        2,
    )
    assert len(server.bodies) == 2
    for part in (
        "The question:",
        "Guide: what you write",
        "noted: no_marker",
        "100 + 20 tokens · cost 0.000100",
    ):
        assert part in result.stdout
    assert "no leak found" in result.stdout


def test_try_with_real_attempts_from_an_episode_log(server: JudgeServer, tmp_path: Path) -> None:
    server.reply = lambda body: "Thinking: x\nCritique: it is 0 1 / 1 2, of course"
    turn = Turn(Attempt((1,), (2,), None, "my wrong answer", ended=True), Grade(False, True), 0.0)
    EpisodeLog(tmp_path, "w").append(
        Episode(Problem("binary_matrix", 7, DATA, "0 1\n1 2"), 0, (turn,)),
        question="what?",
        step=1,
        validate=False,
        uid="u",
    )
    result = ran("feedback", "try", *endpoint(server), "--log", tmp_path)
    assert "my wrong answer" in result.stdout
    assert "GIVES THE ANSWER AWAY (answer: 0 1 / 1 2" in result.stdout
    (tmp_path / "none").mkdir()
    for words, part in (
        ((tmp_path, "--env", "no_such"), "rltf.env.name='no_such'"),
        ((tmp_path / "none",), "no wrong attempt in it"),
        ((tmp_path / "no",), "no such folder"),
    ):
        assert part in refused("feedback", "try", *endpoint(server), "--log", *words)


def test_try_with_an_endpoint_that_refuses_says_why(server: JudgeServer) -> None:
    server.script = ["500"] * 3
    result = rltf("feedback", "try", *endpoint(server))
    assert result.exit_code == 1
    assert "last failure: server_error: HTTP 500" in result.stdout
    assert "no leak found" not in result.stdout


def test_bench_counts_and_measures(server: JudgeServer) -> None:
    result = ran("feedback", "bench", *endpoint(server), "--num", 40, "limits.max_concurrency=8")
    assert server.peak <= 8
    for part in ("calls_per_s", "latency_p99_s", "failed_share"):
        assert part in result.stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["try", "style=hint"], "rltf.feedback.endpoint.base_url=None: it needs it"),
        (["try", "endpoint.modle=m"], "Did you mean 'model'?"),
        (
            ["bench", "endpoint.base_url=http://h/v1", "endpoint.model=m", "cache_dir=c"],
            "would measure the cache",
        ),
    ],
)
def test_what_a_user_can_fix_is_one_line(words: list[str], part: str) -> None:
    assert part in refused("feedback", *words)
