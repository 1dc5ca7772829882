"""SDPO: first attempts pulled towards the policy that has read the feedback, without a reward."""

import pytest

from rltf_verl.config import RLTFConfig
from rltf_verl.types import Role
from tests.support.episode_fakes import text_of
from tests.recipes.composing import rltf_of
from tests.recipes.seeds import Played, play


@pytest.fixture
def config() -> RLTFConfig:
    return rltf_of("sdpo")


GROUP = [["yes"], ["no", "yes"], ["no", "ne"]]


def test_the_settings(config) -> None:
    logit = config.logit_distill
    assert (logit.weight, logit.divergence, logit.beta, logit.top_k) == (1.0, "jsd", 0.5, 100)
    assert (config.attempt.weight, config.attempt.turns) == (0.0, "all")
    assert [member["provider"] for member in config.feedback.provider.options["members"]] == [
        "peer",
        "verifier",
    ]


def test_no_reward_moves_anything(config) -> None:
    sessions = play(config, GROUP)
    assert not sessions.targets.advantages.any()
    assert {row.role[0] for row in sessions.rows} == {Role.ATTEMPT}


def teachers(sessions: Played) -> list[tuple[int, str, str]]:
    """(session, what is judged, what the teacher has read)."""
    return [
        (session, text_of(row.response_ids[t.start : t.end - 1]), text_of(t.prompt_ids))
        for session, row in sessions.rows_of(Role.ATTEMPT)
        for t in row.teachers
    ]


def test_the_teacher_reads_the_question_and_a_siblings_solution(config) -> None:
    told = teachers(play(config, GROUP))
    assert [(s, said) for s, said, _ in told] == [(1, "no"), (2, "no")], (
        "first attempts; right at once: nothing to learn"
    )
    for _, _, read in told:
        assert "Q?" in read
        assert "was correct:\n\nyes\n" in read
        assert "hint" not in read


def test_without_a_solution_in_the_group_it_reads_what_the_tests_came_to(config) -> None:
    told = teachers(play(config, [["nein", "yes"], ["ne", "ne"]]))
    for session, said, read in told:
        assert said == ("nein", "ne")[session]
        assert f"(hint on {said})" in read, "the tests, not the solution"
        assert read.replace(f"(hint on {said})", "").count("nein") == 0, "the attempt itself is not quoted"
    assert len(told) == 2
