"""What the soak calls wrong, on logs and samples made by hand."""

from __future__ import annotations

from benchmarks.soak_checks import problems_by_step, wrong_steps

ORDER = [[4, 7], [1, 2]]


def _played(*places: tuple[int, int, int]) -> list[dict[str, object]]:
    return [{"split": "train", "step": s, "index": i, "session_id": n} for s, i, n in places]


WHOLE = _played((1, 4, 0), (1, 7, 0), (2, 1, 0), (2, 2, 0))


def test_missing_repeated_and_foreign_episodes_are_found() -> None:
    validation = [{"split": "val", "step": 1, "index": 0, "session_id": 0}]
    for records, trouble in (
        (WHOLE + validation, []),
        (WHOLE[:3], ["step 2: 1 episodes missing, 0 extra"]),
        ([*WHOLE, WHOLE[0]], ["step 1: 0 episodes missing, 1 extra"]),
        ([*WHOLE[:3], *_played((2, 9, 0))], ["step 2: 1 episodes missing, 1 extra"]),
    ):
        assert wrong_steps(problems_by_step(records), ORDER, n=1) == trouble
