"""Dynamic sampling and thin validations on the real trainer, and a run that was resumed with
both.
"""

from collections import defaultdict
from itertools import accumulate
from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

STEPS, SAVED_AT, SIZE, EPISODES = 4, 2, 12, 3
TIMEOUT = 600
SETTINGS = [
    "rltf.refill_rounds=2",
    "rltf.episode.val_feedback_every=2",
    "trainer.test_freq=1",
    "trainer.val_before_train=true",
    f"trainer.save_freq={SAVED_AT}",
    "rltf.seed=0",
    "rltf.gamma=1.0",
]


def finished(folder: Path, data: dict[str, str], steps: int) -> runs.Run:
    return runs.start(
        folder, data, [*SETTINGS, f"trainer.total_training_steps={steps}"], method="grpo"
    ).finished(TIMEOUT)


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]
) -> tuple[runs.Run, runs.Run]:
    """(run in one piece, run that ended at the checkpoint and went on from it)."""
    root = tmp_path_factory.mktemp("refill")
    whole = finished(root / "whole", data, STEPS)
    finished(root / "pieces", data, SAVED_AT)
    return whole, finished(root / "pieces", data, STEPS)


def problems(run: runs.Run) -> dict[int, list[int]]:
    """Step -> the problems that were played in it, in the data's numbers."""
    played = defaultdict(set)
    for record in read_episodes(run.episodes):
        if record["split"] == "train":
            played[record["step"]].add((record["uid"], record["index"]))
    return {step: sorted(index for _, index in played[step]) for step in sorted(played)}


def test_dead_groups_are_replaced_and_everything_is_counted(
    both: tuple[runs.Run, runs.Run],
) -> None:
    whole, _ = both
    played = problems(whole)
    steps = [line["data"] for line in whole.metrics() if "rltf/group/refilled" in line["data"]]
    assert len(steps) == STEPS
    assert sum(step["rltf/group/refilled"] for step in steps) > 0, (
        "the tiny policy has groups that are all wrong"
    )
    for number, step in enumerate(steps, 1):
        further = len(played[number]) - SIZE
        assert step["rltf/session/total"] == EPISODES * len(played[number]), (
            "also what was not trained on"
        )
        assert step["rltf/session/lost_share"] == 0.0
        assert step["rltf/group/refilled"] == further
        assert step["rltf/group/refill_rounds"] <= 2
        assert step["rltf/group/left_dead"] == 0 or step["rltf/group/refill_rounds"] == 2
    seen = [index for number in played for index in played[number]]
    assert len(seen) == len(set(seen)), "no problem twice within an epoch"


def test_a_resumed_run_goes_on_with_the_next_problems(both: tuple[runs.Run, runs.Run]) -> None:
    """Problems are taken in the data's order, so what two runs have played by some step is nested,
    however many groups each has replaced: a run that skipped problems or took some again would not
    be."""
    whole, pieces = (list(accumulate(map(set, problems(run).values()), set.union)) for run in both)
    assert len(whole) == len(pieces) == STEPS
    for mine in pieces:
        for other in whole:
            assert mine <= other or other <= mine
    assert len(pieces[-1]) == sum(map(len, problems(both[1]).values())), "none twice in an epoch"


def test_only_every_second_validation_gives_feedback(both: tuple[runs.Run, runs.Run]) -> None:
    for run in both:
        turns = defaultdict(set)
        for record in read_episodes(run.episodes):
            if record["split"] == "val":
                turns[record["step"]].add(len(record["turns"]))
        assert turns == {0: {2}, 1: {1}, 2: {2}, 3: {1}, 4: {2}}
