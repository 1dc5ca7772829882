"""An evaluation's numbers, on episodes whose numbers are plain to see."""

from itertools import combinations
from math import comb, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.runlog.record import episode_record
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.results import Results, evaluate, pass_at_k
from rltf_verl.tools.report.evaluation.show import plot, tables
from rltf_verl.types import Episode, Grade, Problem
from tests.support import log_records

RIGHT = "42"
TURNS = ("turn", "standing", "solved", "improvement", "format", "answers")


def episode(problem: int, *answers: str, stop: str = "horizon") -> dict[str, Any]:
    """Answers as in `log_records.turn`, without feedback."""
    turns = log_records.line(*answers, stop=stop, feedback=None)
    played = Episode(Problem("sums", problem, {}, RIGHT), 0, turns)
    return {**episode_record(played), "question": f"q{problem}"}


def values(results: Results, name: str = "standing") -> list[float | None]:
    return [results.numbers[f"turn_{k + 1}/{name}"].value for k in range(results.num_turns)]


def rounds(results: Results, block: str) -> tuple[float | None, ...]:
    names = ("plasticity", "corrected", "spoiled")
    return tuple(results.numbers[f"{block}/{name}"].value for name in names)


def test_turns_and_rounds_by_hand() -> None:
    results = evaluate(
        [
            episode(0, "1", RIGHT, "3"),
            episode(0, RIGHT, RIGHT, RIGHT),
            episode(1, "1", "1 ", RIGHT),
            episode(1, "", "2", "2"),
        ]
    )
    assert (results.problems, results.sessions, results.samples) == (2, 4, (2, 2))
    assert values(results) == [1 / 4, 2 / 4, 2 / 4]
    assert values(results, "improvement") == [0, 1 / 4, 1 / 4]
    assert results.numbers["revisions/plasticity"].cases == 8
    assert rounds(results, "turn_2/revisions") == (2 / 4, 1 / 3, 0)
    assert rounds(results, "turn_3/revisions") == (2 / 4, 1 / 2, 1 / 2)
    assert rounds(results, "revisions") == (4 / 8, 2 / 5, 1 / 3)
    assert {k: e.value for k, e in results.pass_at.items()} == {1: 1 / 4, 2: 1 / 2}


def test_nothing_was_graded() -> None:
    results = evaluate([episode(k, "?", stop="ungraded") for k in range(2)])
    assert values(results) == [None]
    assert results.pass_at == {}
    assert tables(results) == [[TURNS, ("1", "–", "–", "–", "–", "0")]]


def test_problems_weigh_the_same_with_fewer_samples() -> None:
    """Over episodes it would be 1/4."""
    results = evaluate([episode(0, "1"), episode(0, "1"), episode(0, "2"), episode(1, RIGHT)])
    assert values(results) == [1 / 2]
    assert results.samples == (1, 3)
    assert {k: (e.value, e.problems) for k, e in results.pass_at.items()} == {
        1: (1 / 2, 2),
        2: (0, 1),
        3: (0, 1),
    }


@given(
    st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(case: tuple[int, int, int]) -> None:
    n, c, k = case
    right = sum(min(choice) < c for choice in combinations(range(n), k))
    assert pass_at_k(n, c, k) == pytest.approx(right / comb(n, k))


def test_intervals_are_over_problems() -> None:
    """100 equal samples of each of 40 problems are 40 cases: an interval over 4000 would be ten
    times too narrow.
    """
    records = [episode(p, RIGHT if p % 4 == 0 else "1") for p in range(40) for _ in range(100)]
    standing = evaluate(records).numbers["turn_1/standing"]
    assert (standing.value, standing.problems) == (1 / 4, 40)
    assert (standing.high - standing.low) / (2 * 1.96) == pytest.approx(
        sqrt(0.25 * 0.75 / 40), rel=0.15
    )


def test_the_gain_is_paired() -> None:
    """No episode changed its verdict, so only the problems not seen spread it, however different
    the others are.
    """
    records = [episode(p, "1", "2") if p % 2 else episode(p, RIGHT, RIGHT) for p in range(50)]
    gain = evaluate(records).numbers["turn_2/improvement"]
    unseen = 1 - 0.05 ** (1 / 50)
    assert gain == Estimate(0, pytest.approx(-unseen), pytest.approx(unseen), 50, 50)


@pytest.mark.parametrize(("text", "low", "high"), [("1", 0.0, 0.171), (RIGHT, 0.829, 1.0)])
def test_agreement_is_no_certainty(text: str, low: float, high: float) -> None:
    """Of 16 problems none shows what one in six may still do."""
    numbers = evaluate([episode(p, text) for p in range(16)])
    for share in (numbers.numbers["turn_1/standing"], numbers.pass_at[1]):
        assert (share.low, share.high) == pytest.approx((low, high), abs=0.001)


def test_an_environments_own_numbers_pool_the_values_of_all_answers(tmp_path: Path) -> None:
    kept = [Grade(False, True, numbers={"kept": share}) for share in ([1, 0, 1], [0])]
    logged = log_records.records(
        tmp_path, [(log_records.turn("1", stop="horizon", grade=grade),) for grade in kept]
    )
    results = evaluate(logged)
    number = results.numbers["turn_1/kept"]
    assert (number.value, number.cases) == (0.5, 4)
    assert tables(results)[1] == [("turn", "kept"), ("1", "50.0")]


def test_tables_and_picture(tmp_path) -> None:
    results = evaluate([episode(p, "1" if p else RIGHT, RIGHT) for p in range(4)])
    turns, played, passes = tables(results)
    assert turns[2][1] == "100.0 [47.3, 100.0]"
    assert [line[0] for line in played] == ["round", "1", "all"]
    assert passes[1][:2] == ("1", turns[1][1])
    nothing = evaluate([episode(0, "?", stop="ungraded")])
    plot({"a": results, "b": nothing}, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng, held = np.random.default_rng(1), []
    for _ in range(60):
        p = rng.beta(2, 3, 50)
        records = [
            episode(i, RIGHT if rng.random() < p[i] else "1") for i in range(50) for _ in range(3)
        ]
        standing = evaluate(records).numbers["turn_1/standing"]
        held.append(standing.low <= 0.4 <= standing.high)
    assert 51 <= sum(held) <= 60, "57 expected"
