"""SDPO: a moving average of the policy, which has read more, scores its answers; no reward."""

from dataclasses import replace

from rltf_verl.config.teacher import Gate
from rltf_verl.types import Role
from tests.recipes.composing import method_of
from tests.recipes.seeds import Played, play, stops
from tests.support.episode_fakes import text_of

GROUP = [["yes"], ["no"], ["ne"], ["so yes"]]


def test_no_reward_moves_anything_and_no_second_answer_is_sampled(config) -> None:
    episodes = play(config, GROUP)
    assert not episodes.targets.advantages.any()
    assert {row.role[0] for row in episodes.rows} == {Role.ATTEMPT}
    assert len(episodes.rows) == len(GROUP)
    assert set(stops(episodes)) <= {"solved", "horizon"}


def teachers(episodes: Played) -> dict[int, str]:
    """Episode -> what its teacher has read."""
    read_by = {}
    for episode, row in episodes.rows_of(Role.ATTEMPT):
        for teacher in row.teachers:
            assert (teacher.start, teacher.end) == (0, len(row.response_ids)), "the whole answer"
            read_by[episode] = text_of(teacher.prompt_ids)
    return read_by


def test_a_teacher_reads_a_siblings_solution_of_right_answers_too(config) -> None:
    read_by = teachers(play(config, GROUP))
    assert set(read_by) == {0, 1, 2, 3}
    for episode, read in read_by.items():
        assert "Q?" in read
        assert "hint" not in read
        assert "A correct solution:\n" in read
        own = GROUP[episode][0]
        assert f"A correct solution:\n{own}\n" not in read, "never its own"


def test_without_a_solution_in_the_group_it_reads_what_the_tests_came_to(config) -> None:
    read_by = teachers(play(config, [["nein"], ["ne"]]))
    assert set(read_by) == {0, 1}
    for episode, attempt in enumerate(("nein", "ne")):
        assert f"(hint on {attempt})" in read_by[episode]
        assert read_by[episode].replace(f"(hint on {attempt})", "").count("nein") == 0


def test_alone_a_right_answer_has_no_teacher(config) -> None:
    assert set(teachers(play(config, [["yes"], ["no"]]))) == {1}


def test_srpo_teaches_wrong_answers_by_right_siblings_and_reinforces_the_others() -> None:
    config = method_of("teacher/srpo")
    assert (config.teacher.gate.name, config.attempt.weight) == ("route", 1.0)
    episodes = play(config, GROUP)
    read_by = teachers(episodes)
    assert set(read_by) == {1, 2}
    assert all("yes" in read and "hint" not in read for read in read_by.values())
    assert [a for _, a in episodes.advantages(Role.ATTEMPT)] == [0.5, -0.5, -0.5, 0.5]
    assert teachers(play(config, [["no"], ["ne"]])) == {}, "they stay with GRPO"


def test_sc_sdpo_differs_from_sdpo_by_its_gate_alone() -> None:
    weighted = method_of("teacher/sc_sdpo")
    assert weighted.teacher.gate == Gate("variance")
    sdpo = method_of("teacher/sdpo")
    assert replace(weighted, teacher=replace(weighted.teacher, gate=Gate())) == sdpo
    assert (sdpo.logit_distill.divergence.name, sdpo.logit_distill.top_k) == ("jsd", 100)


def test_rlsd_scales_every_answer_by_the_policy_that_read_the_reference() -> None:
    config = method_of("teacher/rlsd")
    assert not config.logit_distill.reads_logits, "every engine"
    read_by = teachers(play(config, [["yes"], ["no"]]))
    assert set(read_by) == {0, 1}
    assert all("The reference solution:\nyes\n" in read for read in read_by.values())
