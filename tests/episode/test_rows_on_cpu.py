"""From an episode to the rows that are trained on."""

from dataclasses import replace

from rltf_verl.objectives.distill import distill_rows
from rltf_verl.types import CONTEXT, Role
from tests.support.episode_rows import attempt, episode, rows_of, turn

A, D, C, S = Role.ATTEMPT, Role.DISTILL, Role.CRITIQUE, Role.IMITATE
WRONG_RIGHT = episode(turn([1, 2], [3, 4], -0.1), turn([1, 9], [5, 6, 7], 1.0))


def roles(rows):
    """Of rows whose tokens are all of one role."""
    assert all(len(set(row.role)) == 1 for row in rows)
    return [row.role[0] for row in rows]


def trained(row):
    """1 where a token trains something."""
    return tuple(int(role != CONTEXT) for role in row.role)


def test_the_last_answer_is_distilled_unless_it_is_the_first_or_ungraded():
    answers = turn([1], [2]), turn([3], [4], 1.0), turn([5], [6], 0.9)
    (row,) = distill_rows(episode(*answers))
    assert (row.prompt_ids, row.response_ids, set(row.role)) == ((1,), (6,), {D})
    assert (row.turn, row.rewards, row.log_probs) == ((2,), (0.9,), (-6.0,))
    assert distill_rows(episode(answers[1])) == distill_rows(episode(answers[0])) == []
    assert distill_rows(episode(answers[0], replace(answers[2], stop="ungraded"))) == []


def test_attempt_rows_of_the_first_turn_only():
    distill, first = rows_of(WRONG_RIGHT, distill=True, turns="first")
    assert roles([distill, first]) == [D, A], "an attempt row comes last"
    assert (first.response_ids, first.turn, first.rewards) == ((3, 4), (0, 0), (0.0, -0.1))
    assert (distill.prompt_ids, distill.response_ids, distill.turn) == (
        (1, 2),
        (5, 6, 7),
        (1, 1, 1),
    )
    appended = episode(turn([1, 2], [3, 4], -0.1), turn([1, 2, 3, 4, 8, 9], [5], 1.0))
    (row,) = rows_of(appended, turns="first")
    assert (row.prompt_ids, row.response_ids) == (
        (1, 2),
        (3, 4),
    ), "the row ends before the second turn"


def test_roles_with_a_weight_have_rows_in_their_order_and_the_last_attempt_is_last():
    played = episode(turn([1], [2], critique=attempt([5], [6])), turn([3], [4], 1.0))
    assert roles(rows_of(played)) == [A, C, A]
    assert roles(rows_of(played, critique=False)) == [A, A]
    assert roles(rows_of(played, distill=True, imitate="all")) == [A, C, D, S, A]


def test_a_sampler_without_log_probs_gives_none_also_for_merged_rows():
    played = episode(turn([1], [2], log_probs=False), turn([1, 2, 7], [3]))
    assert [r.log_probs for r in rows_of(played, distill=True)] == [(-3.0,), None]
