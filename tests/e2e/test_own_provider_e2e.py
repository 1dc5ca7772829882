"""`rltf.feedback.provider=./mine.py:Mine` in a real run: workers find the file, its feedback
trains.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = pytest.mark.e2e

MINE = """
from rltf_verl.types import Feedback


class Mine:
    name, sees_reference, constant = "mine", False, False

    def __init__(self, digits: int = 3) -> None:
        self.digits = digits

    async def feedback(self, request) -> Feedback:
        return Feedback("1" * self.digits, self.name)
"""


def test_a_file_beside_the_run(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    own = ["rltf/feedback=own", "rltf.feedback.provider=./mine.py:Mine", "+rltf.feedback.digits=4"]
    steps = ["trainer.total_training_steps=1", "trainer.save_freq=-1", "trainer.test_freq=-1"]
    run = runs.start(tmp_path, runs.build_data(tmp_path / "data"), [*own, *steps])
    assert run.wait(600) == 0, run.log[-3000:]
    said = {
        t["feedback"]["provider"]: t["feedback"]["text"]
        for r in read_episodes(run.episodes)
        for t in r["turns"]
        if t["feedback"]
    }
    assert said == {"mine": "1111"}
