"""`rltf probe` on evaluations of a scripted base model with a scripted judge, both behind real HTTP
on loopback.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from rltf_verl.data.questions import QuestionRow, read_questions
from rltf_verl.tools.data.build import build_parquet
from tests.support.commands import ended_well, ran, refused
from tests.support.judge.server import InThread, JudgeServer
from tests.support.log_records import line, write
from tests.tools.evaluate.test_eval_on_cpu import evaluated as played
from tests.tools.evaluate.test_eval_on_cpu import row_of

Body = dict[str, Any]
NUM, N = 32, 4
FEW = 16
"""Problems where fewer prove it."""


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with InThread(JudgeServer(latency=lambda rng: 0.01)) as thread:
        yield thread.server


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    return build_parquet(
        "binary_matrix", folder, seed=0, num_train=NUM, num_test=1, n_max=4, style="compact"
    ).train


@pytest.fixture(scope="module")
def questions(data: Path) -> list[QuestionRow]:
    return read_questions(data)


def evaluated(
    server: JudgeServer, judge: JudgeServer, data: Path, out: Path, *words: object
) -> Result:
    """As training plays: the first right answer ends an episode."""
    asked = [
        "feedback.provider=judge",
        f"feedback.endpoint.base_url={judge.url}",
        "feedback.endpoint.model=j",
    ]
    stops = "episode.stop_when_solved_val=true"
    return played(server, data, out, stops, *asked, "-n", N, *words)


def probed(folder: Path, *words: object) -> Any:
    return json.loads(ran("probe", folder, "--json", *words).stdout)


def rules(report: Any, *, blocks: bool) -> set[str]:
    return {f["key"] for f in report["findings"] if (f["level"] == "error") is blocks}


def policy(questions: list[QuestionRow], first: int, later: int) -> Callable[[Body], str]:
    """Right answers at first, and after feedback, at so many eighths of the seeds; a wrong first
    one can be read.
    """

    def reply(body: Body) -> str:
        question = questions[row_of(questions, body)]
        at_first = body["messages"] == list(question.messages)
        if (body["seed"] - 1) % 8 < (first if at_first else later):
            return question.problem.reference
        return re.sub(r"\d", "7", question.problem.reference) if at_first else "y"

    return reply


def test_a_healthy_base_and_judge(server, judge, data, questions, tmp_path: Path) -> None:
    server.reply = policy(questions, 4, 7)
    ended_well(evaluated(server, judge, data, tmp_path))
    report = probed(tmp_path)
    assert report["verdict"] == "go"
    assert (rules(report, blocks=True), report["inconclusive"]) == (set(), {})
    shares = report["measured"]["shares"]
    assert shares["first_right"]["cases"] == NUM * N
    assert len(judge.bodies) == shares["corrected"]["cases"], "right ones are done"


def test_a_judge_that_tells(server, judge, data, questions, tmp_path: Path) -> None:
    server.reply = policy(questions, 4, 7)
    judge.reply = lambda body: (
        "It is wrong.\n\nCritique: the answer is\n"
        + questions[row_of(questions, body)].problem.reference
    )
    words = ["--problems", FEW, "feedback.guard.action=warn"]
    ended_well(evaluated(server, judge, data, tmp_path, *words))
    report = probed(tmp_path)
    assert report["verdict"] == "change first"
    assert rules(report, blocks=True) == {"feedback_tells"}
    assert {
        report["measured"]["shares"][name]["value"] for name in ("tells", "reaches", "guard_found")
    } == {1}


def test_the_gain_is_foretold_by_feedback_on_other_problems(
    server, data, questions, tmp_path: Path
) -> None:
    """More episodes than the endpoint takes at once: each waits for all the others' texts."""
    server.reply = policy(questions, 0, 7)
    control = ["feedback.provider=shuffled", "feedback.inner.provider=correctness"]
    ended_well(played(server, data, tmp_path, *control, "limits.max_concurrency=8", "-n", N))
    report = probed(tmp_path)
    shares = report["measured"]["shares"]
    assert (shares["corrected"]["cases"], shares["failed"]["value"]) == (NUM * N, 0)
    assert report["expected"]["value"] == pytest.approx(0.83)


def test_the_log_of_a_run(tmp_path: Path) -> None:
    """Its first step, and its training episodes; without a config the provider is whose words are
    there.
    """
    log = tmp_path / "log"
    for session_id in range(2):
        write(log, [line("1", "42"), line("42", stop="solved")], step=1, session_id=session_id)
    write(log, [line("1", "2")] * 3, step=1, validate=True)
    write(log, [line("1", "2")] * 5, step=3)
    env = ["env.name=shortest_path"]  # the log's own is not known here
    report = probed(log, *env)
    shares = report["measured"]["shares"]
    assert (report["run"]["sessions"], report["feedback"]["provider"]) == (2, "judge")
    assert shares["dead_groups"]["value"] == 1.0
    assert shares["tells"]["cases"] == 0, "another environment's problems: not known"
    assert shares["guard_found"]["cases"] == 2
    sizes = ("actor_rollout_ref.rollout.n=4", "data.max_prompt_length=99")
    later = probed(log, "--step", 3, *env, *sizes)
    assert (later["measured"]["sessions"], later["measured"]["groups"]) == (5, 0)
    assert [*later["run"].values()][1:3] == [4, 99]


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (
            ["actor_rollout_ref.rollout.n=1"],
            "actor_rollout_ref.rollout.n=1: must be a whole number, at least 2; a group of",
        ),
        (["data.max_prompt_length=long"], "data.max_prompt_length=long: must be a whole number"),
        (["data.max_prompt_len=3"], "Did you mean 'data.max_prompt_length'?"),
        (["distill.weight=1"], "rltf probe='distill': is not known"),
        (["episode.horizon=3"], "write --rounds 2 instead"),
        (["--config", "hydra_configs/rltf_verl/rltf/env/math.yaml"], "no `rltf:` block"),
    ],
)
def test_what_a_user_can_fix_is_one_line(tmp_path: Path, words: list[str], fix: str) -> None:
    write(tmp_path, [line("1", "2")])
    assert fix in refused("probe", tmp_path, "env.name=shortest_path", *words)
