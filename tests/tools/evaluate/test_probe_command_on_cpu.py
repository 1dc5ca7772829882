"""`rltf probe` on evaluations of a scripted base model with a scripted judge, both behind real HTTP
on loopback.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.data.questions import QuestionRow, read_questions
from tests.support.commands import ended_well, ran, refused, rltf
from tests.support.judge.server import InThread, JudgeServer
from tests.support.log_records import line, write
from tests.tools.evaluate.test_eval_on_cpu import row_of

Body = dict[str, Any]
NUM, N = 32, 4
FEW = 16
"""Problems where fewer prove it."""
JUDGE = ["feedback.provider=judge", "feedback.endpoint.base_url=http://127.0.0.1:9/v1"]
JUDGE += ["feedback.endpoint.model=j"]
WARNINGS = {"never_right", "feedback_tells", "nothing_changes"}
FAST = ["limits.backoff_s=0.01", "limits.max_attempts=2", "limits.max_concurrency=8"]


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
    compact = ["episode.revise=compact_guide", "episode.quote=none"]  # what is told later counts
    return rltf(
        "eval",
        data,
        f"endpoint.base_url={server.url}",
        "endpoint.model=m",
        "episode.stop_when_solved_val=true",
        *FAST,
        *asked,
        *compact,
        *("-n", N, "--out", out),
        *words,
    )


def probed(folder: Path, *words: object) -> Any:
    return json.loads(ran("probe", folder, "--json", *words).stdout)


def rules(report: Any, *, blocks: bool) -> set[str]:
    return {f["key"] for f in report["findings"] if (f["level"] == "error") is blocks}


def finding(report: Any, key: str) -> Any:
    (only,) = (f for f in report["findings"] if f["key"] == key)
    return only


def policy(
    questions: list[QuestionRow],
    first: Callable[[int], bool],
    second: Callable[[int], bool],
    wrong: str | None = "y",
) -> Callable[[Body], str]:
    """Right answers at first, and after feedback, as the seed says; a wrong second one is `wrong`,
    None: the first.
    """

    def reply(body: Body) -> str:
        question = questions[row_of(questions, body)]
        at_first = body["messages"] == list(question.messages)
        right = (first if at_first else second)(body["seed"])
        readable = re.sub(r"\d", "7", question.problem.reference)
        return (
            question.problem.reference
            if right
            else readable
            if at_first or wrong is None
            else wrong
        )

    return reply


def half(seed: int) -> bool:
    return seed % 2 == 0


def never(seed: int) -> bool:
    return False


def most(seed: int) -> bool:
    return seed % 8 != 0


def telling(questions: list[QuestionRow]) -> Callable[[Body], str]:
    return lambda body: (
        "It is wrong.\n\nCritique: the answer is\n"
        + questions[row_of(questions, body)].problem.reference
    )


def test_a_healthy_base_and_judge(server, judge, data, questions, tmp_path: Path) -> None:
    server.reply = policy(questions, half, most)
    ended_well(evaluated(server, judge, data, tmp_path))
    report = probed(tmp_path)
    assert report["verdict"] == "go"
    assert (rules(report, blocks=True), report["inconclusive"]) == (set(), {})
    assert not WARNINGS & rules(report, blocks=False)
    assert "--config-name=rltf_sd" in report["findings"][-1]["fix"]
    shares = report["measured"]["shares"]
    assert shares["first_right"]["cases"] == NUM * N
    right = shares["first_right"]["value"]
    assert round((1 - right) * NUM * N) == shares["corrected"]["cases"], "right ones are done"
    assert len(judge.bodies) == shares["corrected"]["cases"], "nobody else is asked about"
    assert "rltf/distill/log_prob_gap" in ran("probe", tmp_path).stdout


def test_a_judge_that_tells(server, judge, data, questions, tmp_path: Path) -> None:
    server.reply, judge.reply = policy(questions, half, most), telling(questions)
    words = ["--problems", FEW, "feedback.guard.action=warn"]
    ended_well(evaluated(server, judge, data, tmp_path, *words))
    report = probed(tmp_path)
    assert report["verdict"] == "change first"
    assert rules(report, blocks=True) == {"feedback_tells"}
    assert "preset" not in rules(report, blocks=False), (
        "right answers that may be copies recommend nothing"
    )
    assert {
        report["measured"]["shares"][name]["value"] for name in ("tells", "reaches", "guard_found")
    } == {1}
    assert "rltf.feedback.reference=false" in finding(report, "feedback_tells")["fix"]


def test_the_gain_is_foretold_by_feedback_on_other_problems(
    server, data, questions, tmp_path: Path
) -> None:
    """More episodes than the endpoint takes at once: each waits for all the others' texts."""
    server.reply = policy(questions, never, most)
    control = ["feedback.provider=shuffled", "feedback.inner.provider=correctness"]
    words = ["endpoint.model=m", *FAST, *control, "episode.revise=compact_guide"]
    url = f"endpoint.base_url={server.url}"
    ran("eval", data, url, *words, "episode.quote=none", "-n", N, "--out", tmp_path)
    report = probed(tmp_path)
    shares = report["measured"]["shares"]
    assert (shares["corrected"]["cases"], shares["failed"]["value"]) == (NUM * N, 0)
    assert report["expected"]["value"] == pytest.approx(0.83)
    assert "first answers right after RLTF-SD: 83.0" in ran("probe", tmp_path).stdout


def test_sizes_of_the_run(server, judge, data, tmp_path: Path) -> None:
    """100 prompt tokens by the endpoint's count; answers cut off are cut off at the run's limit."""
    server.reply = lambda body: ("x", "length")
    ended_well(evaluated(server, judge, data, tmp_path, "--problems", FEW, "endpoint.max_tokens=7"))
    report = probed(tmp_path, "data.max_prompt_length=99", "data.train_batch_size=5")
    assert list(report["run"].values()) == [5, N, 99, 7]
    assert {"too_long", "cut_off"} <= rules(report, blocks=True)
    assert finding(report, "too_long")["fix"] == "set data.max_prompt_length=100"


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
    assert (
        report["measured"]["sessions"],
        report["run"]["sessions"],
        report["feedback"]["provider"],
    ) == (4, 2, "judge")
    values = [shares[name]["value"] for name in ("first_right", "dead_groups", "improvement")]
    assert values == [0.5, 1.0, 0.5]
    assert shares["tells"]["cases"] == 0, "another environment's problems: not known"
    assert shares["guard_found"]["cases"] == 2
    later = probed(log, "--step", 3, *env, "actor_rollout_ref.rollout.n=4")
    assert (
        later["measured"]["sessions"],
        later["measured"]["groups"],
        later["run"]["sessions"],
    ) == (5, 0, 4)
    assert "groups of 4 that all fail: not known" in later["inconclusive"]["never_right"]
    (tmp_path / "evaluation.json").write_text("[]", "utf-8")
    assert "evaluation.json: holds no evaluation" in refused("probe", log, *env)


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
