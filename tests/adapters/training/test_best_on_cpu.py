"""The checkpoint with the best validation is kept, whatever verl deletes."""

import math
import os
import shutil
from pathlib import Path

import pytest

from rltf_verl.adapters.training.best import BEST, RECORD, BestCheckpoint
from rltf_verl.config import ConfigError

METRIC = "val-core/rltf/mine/acc/mean@1"


def saved(folder: Path, step: int) -> None:
    """A checkpoint of verl's; of the others it keeps none."""
    for other in folder.glob("global_step_*/actor"):
        shutil.rmtree(other)
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    (actor / "model.pt").write_text(f"weights of step {step}")


def trained(best: BestCheckpoint, folder: Path, values: dict[int, float]) -> None:
    for step, value in values.items():
        saved(folder, step)
        best.on_validation({METRIC: value}, step)


def kept(folder: Path) -> list[tuple[str, str]]:
    folders = sorted(folder.glob(f"{BEST}*"))
    return [(path.name, (path / "actor" / "model.pt").read_text()) for path in folders]


def test_the_best_of_a_run_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = BestCheckpoint(tmp_path, METRIC)
    best.on_validation({METRIC: 0.9}, 0)  # before training: nothing to keep
    trained(best, tmp_path, {2: 0.25, 4: 0.5, 6: 0.5, 8: math.nan, 10: 0.25})
    assert kept(tmp_path) == [("best_global_step_4", "weights of step 4")]
    resume = f"trainer.resume_from_path={tmp_path / 'best_global_step_4'}"
    assert resume in capsys.readouterr().out


def test_a_resumed_run_knows_the_earlier_best(tmp_path: Path) -> None:
    trained(BestCheckpoint(tmp_path, METRIC), tmp_path, {2: 0.5, 4: 0.25})
    resumed = BestCheckpoint(tmp_path, METRIC)
    resumed.on_validation({METRIC: 0.25}, 4)  # verl's validation before training
    trained(resumed, tmp_path, {6: 0.4})
    assert kept(tmp_path) == [("best_global_step_2", "weights of step 2")]
    trained(resumed, tmp_path, {8: 0.75})
    assert kept(tmp_path) == [("best_global_step_8", "weights of step 8")]
    trained(BestCheckpoint(tmp_path, METRIC), tmp_path, {10: 0.7})
    assert [name for name, _ in kept(tmp_path)] == ["best_global_step_8"]


def test_a_run_that_was_killed_in_a_validation_keeps_its_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path, 4)
    resumed = BestCheckpoint(tmp_path, METRIC)
    resumed.on_validation({METRIC: 0.9}, 4)
    trained(resumed, tmp_path, {6: 0.5})
    assert kept(tmp_path) == [("best_global_step_4", "weights of step 4")]


def test_the_best_of_another_metric_does_not_count(tmp_path: Path) -> None:
    trained(BestCheckpoint(tmp_path, METRIC), tmp_path, {2: 0.9})
    best = BestCheckpoint(tmp_path, "val-core/other")
    saved(tmp_path, 6)
    best.on_validation({"val-core/other": 0.1}, 6)
    assert kept(tmp_path) == [("best_global_step_6", "weights of step 6")]


@pytest.mark.parametrize("size", [0, 20])
def test_a_damaged_record_is_a_warning(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    trained(BestCheckpoint(tmp_path, METRIC), tmp_path, {2: 0.9})
    record = tmp_path / f"{BEST}2" / RECORD
    record.write_bytes(record.read_bytes()[:size])
    best = BestCheckpoint(tmp_path, METRIC)
    assert str(record) in caplog.text
    trained(best, tmp_path, {4: 0.5})
    assert kept(tmp_path) == [("best_global_step_4", "weights of step 4")]


def test_a_metric_that_no_validation_has_is_refused_at_the_first(tmp_path: Path) -> None:
    best = BestCheckpoint(tmp_path, METRIC.replace("mean@1", "mean@2"))
    with pytest.raises(ConfigError, match=f"rltf.keep_best=.*{METRIC}"):
        best.on_validation({METRIC: 0.0, "val-aux/x": 1.0}, 0)
    later = BestCheckpoint(tmp_path, METRIC)
    later.on_validation({"val-aux/x": 1.0}, 0, first_answers=True)
    later.on_validation({METRIC: 0.0}, 2)
    later.on_validation({"val-aux/x": 1.0}, 4, first_answers=True)
    BestCheckpoint(tmp_path, None).on_validation({}, 2)
    assert kept(tmp_path) == []


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    trained(BestCheckpoint(tmp_path, METRIC), tmp_path, {2: 0.5, 4: 0.25})
    assert kept(tmp_path) == [("best_global_step_2", "weights of step 2")]
