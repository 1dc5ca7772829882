"""The checkpoint with the best validation is kept, whatever verl deletes."""

import math
import os
import shutil
from pathlib import Path

import pytest

from rltf_verl.adapters.training.best import BEST, RECORD, BestCheckpoint
from rltf_verl.config import ConfigError

METRIC, OTHER = "val-core/rltf/mine/acc/mean@1", "val-core/other"


def trained(folder: Path, values: dict[int, float], metric: str = METRIC) -> BestCheckpoint:
    """One process: values of the validations by step. verl saves each step after the first, and
    keeps no other one's weights.
    """
    best = BestCheckpoint(folder, metric)
    for step, value in values.items():
        actor = folder / f"global_step_{step}" / "actor"
        if step and not actor.is_dir():
            for other in folder.glob("global_step_*/actor"):
                shutil.rmtree(other)
            actor.mkdir(parents=True)
            (actor / "model.pt").write_text(f"weights of step {step}")
        best.on_validation({metric: value}, step)
    return best


def kept(folder: Path) -> list[tuple[str, str]]:
    folders = sorted(folder.glob(f"{BEST}*"))
    return [(path.name, (path / "actor" / "model.pt").read_text()) for path in folders]


RESUMED = ({2: 0.5, 4: 0.25}, {4: 0.25, 6: 0.4})
"""The second process validates before it trains."""


@pytest.mark.parametrize(
    ("processes", "step"),
    [
        (({0: 0.9, 2: 0.25, 4: 0.5, 6: 0.5, 8: math.nan, 10: 0.25},), 4),
        (RESUMED, 2),
        ((*RESUMED, {8: 0.75}), 8),
        ((*RESUMED, {8: 0.75}, {10: 0.7}), 8),
        # killed in its validation
        (({4: math.nan}, {4: 0.9, 6: 0.5}), 4),
    ],
)
def test_the_best_of_a_run_survives(
    tmp_path: Path, processes: tuple[dict[int, float], ...], step: int
) -> None:
    for values in processes:
        trained(tmp_path, values)
    assert kept(tmp_path) == [(f"best_global_step_{step}", f"weights of step {step}")]


def test_the_best_of_another_metric_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, {2: 0.9})
    trained(tmp_path, {6: 0.1}, OTHER)
    assert kept(tmp_path) == [("best_global_step_6", "weights of step 6")]
    resume = f"trainer.resume_from_path={tmp_path / 'best_global_step_6'}"
    assert resume in capsys.readouterr().out


@pytest.mark.parametrize("size", [0, 20])
def test_a_damaged_record_is_a_warning(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    trained(tmp_path, {2: 0.9})
    record = tmp_path / f"{BEST}2" / RECORD
    record.write_bytes(record.read_bytes()[:size])
    trained(tmp_path, {4: 0.5})
    assert str(record) in caplog.text
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
    trained(tmp_path, {2: 0.5, 4: 0.25})
    assert kept(tmp_path) == [("best_global_step_2", "weights of step 2")]
