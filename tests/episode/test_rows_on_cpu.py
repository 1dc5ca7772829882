"""From an episode to the rows that are trained on; and what holds for the rows of any episode."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.objectives.distill import distill_rows
from rltf_verl.types import CONTEXT, Episode, Role
from tests.support.effort import examples
from tests.support.episode_rows import PROBLEM, attempt, episode, rows_of, turn

A, D, C, S = Role.ATTEMPT, Role.DISTILL, Role.CRITIQUE, Role.IMITATE
WRONG_RIGHT = episode(turn([1, 2], [3, 4], -0.1), turn([1, 9], [5, 6, 7], 1.0))


def roles(rows):
    """Of rows whose tokens are all of one role."""
    assert all(len(set(row.role)) == 1 for row in rows)
    return [row.role[0] for row in rows]


def test_the_last_answer_is_distilled_unless_it_is_ungraded():
    answers = turn([1], [2]), turn([3], [4], 1.0), turn([5], [6], 0.9)
    (row,) = distill_rows(episode(*answers))
    assert (row.turn, row.rewards, row.log_probs) == ((2,), (0.9,), (-6.0,))
    assert distill_rows(episode(answers[0], replace(answers[2], stop="ungraded"))) == []


def test_attempt_rows_of_the_first_turn_only():
    distill, first = rows_of(WRONG_RIGHT, distill=True, turns="first")
    assert roles([distill, first]) == [D, A], "an attempt row comes last"
    assert (first.response_ids, first.turn, first.rewards) == ((3, 4), (0, 0), (0.0, -0.1))
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


IDS = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(tuple)


@st.composite
def episodes(draw):
    """Turns whose prompts continue the row of the one before, or do not."""
    turns = []
    for k in range(draw(st.integers(1, 6))):
        before = turns[-1].attempt if k else None
        prompt = (
            before.prompt_ids + before.response_ids + draw(IDS)
            if k and draw(st.booleans())
            else draw(IDS)
        )
        critique = attempt(draw(IDS), draw(IDS)) if draw(st.booleans()) else None
        reward = draw(st.sampled_from([-0.1, 0.0, 0.9, 1.0]))
        turns.append(turn(prompt, draw(IDS), reward, critique))
    return Episode(PROBLEM, 0, tuple(turns))


@examples(150)
@given(episodes())
def test_every_field_is_as_long_as_the_response_and_context_holds_nothing(played):
    for row in rows_of(played, distill=True, imitate="all"):
        fields = (row.role, row.turn, row.rewards, row.log_probs)
        assert {len(f) for f in fields} == {len(row.response_ids)}
        gaps = [j for j, role in enumerate(row.role) if role == CONTEXT]
        assert all(row.log_probs[j] == row.rewards[j] == 0.0 for j in gaps)


@examples(150)
@given(episodes())
def test_every_attempt_stands_in_exactly_one_row_as_it_was_sampled(played):
    rows, turns, seen = rows_of(played, distill=True, imitate="all"), played.turns, []
    attempts = [r for r in rows if Role.ATTEMPT in r.role]
    assert rows[-1] is attempts[-1]
    assert attempts[-1].turn[-1] == len(turns) - 1
    for row in attempts:
        assert set(row.role) <= {Role.ATTEMPT, CONTEXT}
        for k in sorted({t for t, role in zip(row.turn, row.role, strict=True) if role != CONTEXT}):
            places = [
                j
                for j, (t, r) in enumerate(zip(row.turn, row.role, strict=True))
                if r != CONTEXT and t == k
            ]
            sampled = turns[k].attempt
            assert (*row.prompt_ids, *row.response_ids[: places[0]]) == sampled.prompt_ids
            assert tuple(row.response_ids[j] for j in places) == sampled.response_ids
            assert tuple(row.log_probs[j] for j in places) == sampled.log_probs
            assert [row.rewards[j] for j in places] == [0.0] * (len(places) - 1) + [turns[k].reward]
            seen.append(k)
    assert sorted(seen) == list(range(len(turns)))


@examples(150)
@given(episodes(), st.booleans(), st.sampled_from([None, "revised", "all"]))
def test_episodes_are_distilled_and_imitated_by_their_last_answers(played, distill, imitate):
    rows, turns = rows_of(played, distill=distill, imitate=imitate), played.turns
    last = len(turns) - 1

    def check(role, expected):
        made = [r for r in rows if role in r.role]
        assert [(r.prompt_ids, r.response_ids) for r in made] == [
            (turns[0].attempt.prompt_ids, turns[k].attempt.response_ids) for k in expected
        ]
        assert all(
            set(r.role) == {role} and set(r.turn) == {k}
            for r, k in zip(made, expected, strict=True)
        )

    check(Role.DISTILL, [last] * (last > 0 and distill))
    right = bool(turns[last].grade.correct and imitate) and (last > 0 or imitate == "all")
    check(Role.IMITATE, [last] * right)


@examples(150)
@given(episodes())
def test_every_critique_is_credited_with_the_turn_that_it_led_to(played):
    turns = played.turns
    led_to = [(k, before.feedback) for k, before in enumerate(turns[:-1], 1)]
    expected = [
        (k, f.attempt.prompt_ids, f.attempt.response_ids) for k, f in led_to if f is not None
    ]
    rows = [r for r in rows_of(played) if Role.CRITIQUE in r.role]
    assert [(r.turn[0], r.prompt_ids, r.response_ids) for r in rows] == expected
    assert all(set(r.role) == {Role.CRITIQUE} for r in rows)
