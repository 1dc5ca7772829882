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


def distilled(played, answer="first_right"):
    """Which turns are distilled."""
    rows = distill_rows(played, answer)
    assert all(
        row.prompt_ids == played.turns[0].attempt.prompt_ids and set(row.role) == {D}
        for row in rows
    )
    return [row.turn[0] for row in rows]


def test_the_first_right_answer_of_an_episode_that_goes_on():
    answers = turn([1], [2]), turn([3], [4], 1.0), turn([5], [6], 0.9), turn([7], [8])
    played = episode(*answers)
    assert (distilled(played), distilled(played, "last")) == ([1], [3])
    (row,) = distill_rows(played, "first_right")
    assert (row.response_ids, row.rewards, row.log_probs) == ((4,), (1.0,), (-4.0,))
    assert distilled(episode(answers[0], answers[3])) == [1], "the last where none is right"
    assert distilled(episode(answers[1], answers[0])) == [], "a first attempt has its row already"
    assert distilled(episode(answers[1])) == distilled(episode(answers[0])) == []
    ungraded = replace(answers[3], stop="ungraded")
    assert distilled(episode(answers[0], answers[1], ungraded)) == [1]
    assert distilled(episode(answers[0], ungraded)) == []


def test_the_first_right_answer_of_every_line_of_a_tree():
    """0 → (1 right → (2, 3 right)), and 0 → 4 → (5 right, 6); the two lines over 1 share it."""
    parents, right = (None, 0, 1, 1, 0, 4, 4), (1, 3, 5)
    played = episode(*(turn([k], [k + 10], float(k in right)) for k in range(7)))
    played = replace(
        played,
        turns=tuple(replace(t, parent=p) for t, p in zip(played.turns, parents, strict=True)),
    )
    assert distilled(played) == [1, 5, 6]
    assert distilled(played, "last") == [2, 3, 5, 6]


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
