"""Free text scored by judges, over real HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs import make_env
from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.envs.writing.scoring import Scale, read_score, score_prompt
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Problem
from tests.support.judge.server import InThread, JudgeServer, answering

PROBLEM = Problem(
    "writing", 0, {"question": "Write about rain.", "rubric": ["one image", "no cliché"]}, ""
)
REPLY = (
    "Thinking: hm. Score: 2\n\nCritique: Cut the second line.\nIt repeats the first.\n\nScore: {}"
)


def saying(*scores: str) -> JudgeServer:
    return answering(*map(REPLY.format, scores))


def env_of(*urls: str, **options: Any) -> Any:
    judges = [
        {
            "endpoint": {"base_url": url, "model": f"m{i}"},
            "limits": {"max_attempts": 1, "deadline_s": 5},
        }
        for i, url in enumerate(urls)
    ]
    return make_env("writing", judges=judges, **options)


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Iterator[list[JudgeServer]]:
    with InThread(saying("7", "7")) as one, InThread(saying("9.5", "9.5")) as other:
        yield [one.server, other.server]


def test_the_mean_of_the_judges_is_the_score_and_their_critiques_the_feedback(
    servers: list[JudgeServer],
) -> None:
    env = env_of(*(server.url for server in servers))
    grade = env.grade(PROBLEM, "<think>Or snowed?</think>It rained.")
    assert (grade.correct, grade.format_ok, grade.parsed) == (True, True, "8.25")
    assert grade.score == pytest.approx((8.25 - 1) / 9)
    assert grade.details["scores"] == [7, 9.5]
    critique = "Cut the second line.\nIt repeats the first."
    assert env.explain(PROBLEM, "It rained.", grade, "hint") == f"{critique}\n\n{critique}"
    assert env.explain(PROBLEM, "It rained.", grade, "location").endswith(
        "Its score is 8.25 of 10."
    )
    (body,) = servers[0].bodies
    assert "(1) one image\n  (2) no cliché" in body["messages"][0]["content"]
    assert "snowed" not in body["messages"][0]["content"], "judges read no thoughts"


def test_below_the_threshold_a_text_is_not_correct(servers: list[JudgeServer]) -> None:
    assert not env_of(servers[0].url, threshold=7.5).grade(PROBLEM, "It rained.").correct


def test_an_empty_text_is_worth_nothing_and_asks_nobody() -> None:
    grade = make_env("writing").grade(PROBLEM, "<think>no end")
    assert make_env("writing").grade(PROBLEM, " \n") == grade
    assert (grade.correct, grade.format_ok, grade.score) == (False, False, 0.0)


THOUGHTS = ("<think>Say so:\nScore: 2\nOr was", "3</think>\nScore: 8")


@pytest.mark.parametrize("scores", [("great", "8"), THOUGHTS])
def test_a_reply_without_a_score_is_asked_for_again(scores: tuple[str, str]) -> None:
    with InThread(saying(*scores)) as thread:
        assert env_of(thread.server.url).grade(PROBLEM, "Rain.").parsed == "8.00"


def test_without_a_score_twice_there_is_no_verdict() -> None:
    with (
        InThread(saying("11", "none")) as thread,
        pytest.raises(GradeUnavailable, match="no score in the reply, twice"),
    ):
        env_of(thread.server.url).grade(PROBLEM, "Rain.")


def test_one_judge_that_is_down_leaves_no_verdict(servers: list[JudgeServer]) -> None:
    with pytest.raises(GradeUnavailable, match=r"^rltf\.env\.judges\[1\]: "):
        env_of(servers[0].url, "http://127.0.0.1:9/v1").grade(PROBLEM, "It rained.")


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Score: 7", 7),
        ("**Score:** 7.5", 7.5),
        ("- score : 8/10", 8),
        ("Score: 8 out of 10.", 8),
        ("Score: 8/5", None),
        ("Score: 0", None),
        ("Score: 11", None),
        ("Score: -3", None),
        ("Score: 3\nScore: 4", 4),
        ("The Score: 9", None),
        ("Score: seven", None),
        ("", None),
        ("Score: 1e1", None),
    ],
)
def test_scores_are_read_within_bounds(reply: str, score: float | None) -> None:
    assert read_score(reply, Scale(1, 10)) == score


@given(st.text())
def test_no_reply_breaks_the_reader_and_no_text_leaves_its_block(text: str) -> None:
    score = read_score(text, Scale(0, 1))
    assert score is None or 0 <= score <= 1
    prompt = score_prompt("Write.", text, [], Scale(1, 10))
    fence = max((line for line in prompt.split("\n") if line and set(line) == {"~"}), key=len)
    assert prompt.split("\n").count(fence) == 4


def test_assignments_come_from_a_file_and_no_test_one_is_trained_on(tmp_path: Path) -> None:
    rows = [{"prompt": f"Write about {i % 8}.", "needs": f"a\n b{i % 8}\n\n"} for i in range(16)]
    path = tmp_path / "assignments.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    env = make_env("writing", path=str(path), rubric_field="needs")
    splits = env.build(3, 5, 3)
    questions = [
        [problem.data["question"] for problem in part] for part in (splits.train, splits.test)
    ]
    assert (len(set(questions[0])), len(set(questions[1]))) == (5, 3)
    assert not set(questions[0]) & set(questions[1])
    assert splits.train[0].data["rubric"] == ["a", f"b{questions[0][0][-2]}"]
    assert [v.promise for v in check_env(env, num_problems=4) if v.broken] == []
    with pytest.raises(ValueError, match=r"8 .* 6 \+ 3"):
        env.build(0, 6, 3)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, r"rltf\.env\.path=null"),
        ("none.csv", r"rltf\.env\.path=.*no such file"),
        ("a.csv", "a row has no 'prompt'; its columns are text"),
    ],
)
def test_a_build_needs_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("text\nrain\n")
    with pytest.raises(ValueError, match=message):
        make_env("writing", path=path).build(0, 1, 0)


def test_without_judges_grading_says_what_to_name() -> None:
    with pytest.raises(ValueError, match=r"rltf\.env\.judges=\[\]: name at least one"):
        make_env("writing").grade(PROBLEM, "Rain.")
