"""From an episode to the rows that are trained on."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rltf_verl.episode.rows import episode_to_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Turn

PROBLEM = Problem("echo", 0, {}, "yes")
A, D, C = Role.ATTEMPT, Role.DISTILL, Role.CRITIQUE


def attempt(prompt, response, log_probs=True):
    values = tuple(-float(i) for i in response) if log_probs else None
    return Attempt(tuple(prompt), tuple(response), values, text="", ended=True)


def turn(prompt, response, reward=0.0, critique=None, log_probs=True):
    feedback = Feedback("f", "policy", attempt=critique) if critique else None
    return Turn(attempt(prompt, response, log_probs), Grade(reward > 0.5, True), reward, feedback)


def episode(*turns):
    return Episode(PROBLEM, 0, tuple(turns), "horizon")


WRONG_RIGHT = episode(turn([1, 2], [3, 4], -0.1), turn([1, 9], [5, 6, 7], 1.0))


def test_one_turn_is_one_attempt_row_and_nothing_to_distill():
    (row,) = episode_to_rows(episode(turn([1, 2], [3, 4], 1.0)), distill=True)
    assert row.role is A
    assert (row.prompt_ids, row.response_ids) == ((1, 2), (3, 4))
    assert (row.mask, row.turn, row.rewards, row.log_probs) == ((1, 1), (0, 0), (0.0, 1.0), (-3.0, -4.0))


def test_two_turns_with_distillation_the_last_attempt_comes_last():
    first, distill, last = episode_to_rows(WRONG_RIGHT, distill=True)
    assert [first.role, distill.role, last.role] == [A, D, A]
    assert (first.prompt_ids, first.response_ids, first.turn, first.rewards) == ((1, 2), (3, 4), (0, 0), (0.0, -0.1))
    assert (last.prompt_ids, last.response_ids, last.turn) == ((1, 9), (5, 6, 7), (1, 1, 1))
    assert last.rewards == (0.0, 0.0, 1.0)
    # the last answer as if it had been given to the first prompt
    assert (distill.prompt_ids, distill.response_ids) == ((1, 2), (5, 6, 7))
    assert (distill.mask, distill.turn, distill.log_probs) == ((1, 1, 1), (1, 1, 1), (-5.0, -6.0, -7.0))
    assert distill.rewards == (0.0, 0.0, 1.0)


def test_a_wrong_last_answer_is_distilled_too_and_the_middle_one_never():
    played = episode(turn([1], [2]), turn([3], [4]), turn([5], [6, 7], -0.1))
    rows = episode_to_rows(played, distill=True)
    assert [(r.role, r.prompt_ids, r.response_ids) for r in rows] == [
        (A, (1,), (2,)), (A, (3,), (4,)), (D, (1,), (6, 7)), (A, (5,), (6, 7)),
    ]  # fmt: skip


def test_without_distillation_there_are_attempt_rows_only():
    assert [r.role for r in episode_to_rows(WRONG_RIGHT, distill=False)] == [A, A]


def test_a_continuing_prompt_shares_the_row_and_the_gap_is_masked():
    played = episode(turn([1, 2], [3, 4], -0.1), turn([1, 2, 3, 4, 8, 9], [5], 1.0))
    (row,) = episode_to_rows(played, distill=False)
    assert (row.prompt_ids, row.response_ids) == ((1, 2), (3, 4, 8, 9, 5))
    assert row.mask == (1, 1, 0, 0, 1)
    assert row.turn == (0, 0, 1, 1, 1)
    assert row.rewards == (0.0, -0.1, 0.0, 0.0, 1.0)
    assert row.log_probs == (-3.0, -4.0, 0.0, 0.0, -5.0)


def test_merging_goes_on_over_three_turns_and_stops_where_the_prefix_breaks():
    first, second = turn([1], [2]), turn([1, 2, 7], [3], 0.5)
    (row,) = episode_to_rows(episode(first, second, turn([1, 2, 7, 3, 7], [4], 1.0)), distill=False)
    assert (row.response_ids, row.mask, row.turn) == ((2, 7, 3, 7, 4), (1, 0, 1, 0, 1), (0, 1, 1, 2, 2))
    assert row.rewards == (0.0, 0.0, 0.5, 0.0, 1.0)
    rows = episode_to_rows(episode(first, second, turn([1, 2, 7, 9], [4], 1.0)), distill=False)
    assert [r.response_ids for r in rows] == [(2, 7, 3), (4,)]


def test_a_prompt_that_only_shares_the_first_prompt_is_not_merged():
    rows = episode_to_rows(episode(turn([1, 2], [3, 4]), turn([1, 2, 3], [5])), distill=False)
    assert [(r.prompt_ids, r.response_ids) for r in rows] == [((1, 2), (3, 4)), ((1, 2, 3), (5,))]


def test_a_merged_session_is_distilled_from_its_last_answer_alone():
    distill, merged = episode_to_rows(episode(turn([1], [2]), turn([1, 2, 7], [3, 4], 1.0)), distill=True)
    assert (distill.role, distill.prompt_ids, distill.response_ids) == (D, (1,), (3, 4))
    assert (merged.role, merged.response_ids) == (A, (2, 7, 3, 4))


def test_a_critique_of_the_policy_is_a_row_credited_with_the_turn_it_led_to():
    critique = attempt([1, 2, 50], [60, 61])
    played = episode(turn([1], [2], -0.1, critique=critique), turn([3], [4], 1.0))
    first, row, distill, last = episode_to_rows(played, distill=True)
    assert [first.role, row.role, distill.role, last.role] == [A, C, D, A]
    assert (row.prompt_ids, row.response_ids, row.turn) == ((1, 2, 50), (60, 61), (1, 1))
    assert (row.log_probs, row.rewards) == ((-60.0, -61.0), (0.0, 1.0))


def test_a_critique_that_led_nowhere_is_no_row():
    """The revise prompt did not fit: there is no turn to credit it with."""
    played = replace(episode(turn([1], [2], critique=attempt([5], [6]))), stop="prompt_too_long")
    assert [r.role for r in episode_to_rows(played, distill=True)] == [A]


def test_a_sampler_without_log_probs_gives_none_also_for_merged_rows():
    played = episode(turn([1], [2], log_probs=False), turn([1, 2, 7], [3]))
    assert [r.log_probs for r in episode_to_rows(played, distill=True)] == [(-3.0,), None]


IDS = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(tuple)


@st.composite
def episodes(draw):
    turns, sequence = [], ()
    for _ in range(draw(st.integers(1, 4))):
        prompt = sequence + draw(IDS) if draw(st.booleans()) else draw(IDS)
        critique = attempt(draw(IDS), draw(IDS)) if draw(st.booleans()) else None
        reward = draw(st.sampled_from([-0.1, 0.0, 0.9, 1.0]))
        turns.append(turn(prompt, draw(IDS), reward, critique))
        sequence = prompt + turns[-1].attempt.response_ids
    return episode(*turns)


@settings(max_examples=150, deadline=None)
@given(episodes(), st.booleans())
def test_rows_of_any_episode(played, distill):
    rows, turns = episode_to_rows(played, distill=distill), played.turns
    for row in rows:
        lengths = {len(row.response_ids), len(row.mask), len(row.turn), len(row.rewards), len(row.log_probs)}
        assert lengths == {len(row.response_ids)}
        assert all(
            lp == 0.0 and r == 0.0 for lp, r, m in zip(row.log_probs, row.rewards, row.mask, strict=True) if not m
        )
    attempts = [r for r in rows if r.role is A]
    assert rows[-1] is attempts[-1]
    # every attempt's tokens stand in exactly one attempt row, under their own prompt, with their own log-probs
    seen = []
    for row in attempts:
        for k in sorted(set(row.turn)):
            places = [j for j, (t, m) in enumerate(zip(row.turn, row.mask, strict=True)) if m and t == k]
            played_turn = turns[k]
            assert (*row.prompt_ids, *row.response_ids[: places[0]]) == played_turn.attempt.prompt_ids
            assert tuple(row.response_ids[j] for j in places) == played_turn.attempt.response_ids
            assert tuple(row.log_probs[j] for j in places) == played_turn.attempt.log_probs
            assert row.rewards[places[-1]] == played_turn.reward
            assert sum(abs(row.rewards[j]) for j in places[:-1]) == 0.0
            seen.append(k)
    assert seen == list(range(len(turns)))
    distilled = [r for r in rows if r.role is D]
    assert len(distilled) == (1 if distill and len(turns) > 1 else 0)
    for row in distilled:
        assert row.prompt_ids == turns[0].attempt.prompt_ids
        assert row.response_ids == turns[-1].attempt.response_ids
    critiques = [t.feedback.attempt for t in turns[:-1] if t.feedback]
    assert [(r.prompt_ids, r.response_ids) for r in rows if r.role is C] == [
        (c.prompt_ids, c.response_ids) for c in critiques
    ]
