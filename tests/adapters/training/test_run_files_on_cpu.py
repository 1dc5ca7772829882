"""Files of an earlier process are set aside when a run is resumed, and only then."""

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.training.best import BestCheckpoint
from rltf_verl.adapters.training.run_files import set_aside_later
from rltf_verl.runlog.files import STAMP


def config(*loggers, folder="nowhere", val_only=False):
    trainer = {"logger": list(loggers), "default_local_dir": str(folder), "val_only": val_only}
    return OmegaConf.create({"trainer": trainer})


@pytest.mark.parametrize(("step", "logger", "kept"), [(0, "file", 0), (7, "file", 1), (7, "x", 0)])
def test_a_resumed_run_keeps_its_metrics(tmp_path, monkeypatch, step, logger, kept):
    path = tmp_path / "metrics.jsonl"
    path.write_text("earlier")
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    set_aside_later(config("console", logger), None, step)
    assert (tmp_path / ".metrics.jsonl.earlier").exists() == kept != path.exists()


def test_a_disk_that_refuses_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    (tmp_path / ("x" * 250)).write_text("earlier")  # the longer name is too long
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / ("x" * 250)))
    set_aside_later(config("file"), None, 7)
    assert "will be erased" in caplog.text


def test_a_run_that_went_back_leaves_later_checkpoints_behind(tmp_path):
    """Unless it only validates."""
    for name in ("global_step_40", "global_step_45", "best_global_step_45", "global_step_50_hf"):
        (tmp_path / name / "actor").mkdir(parents=True)
        (tmp_path / name / "data.pt").touch()
    (tmp_path / "global_step_50" / "actor").mkdir(parents=True)
    (tmp_path / "global_step_50" / STAMP).touch()  # killed while it was written
    before = names(tmp_path)
    set_aside_later(config("console", folder=tmp_path, val_only=True), None, 40)
    assert names(tmp_path) == before
    for _ in range(2):
        set_aside_later(config("console", folder=tmp_path), None, 40)
    assert names(tmp_path) == ["global_step_40", "global_step_50_hf", "superseded"]
    aside = sorted(path.name for path in tmp_path.glob("superseded/*/*"))
    assert aside == ["best_global_step_45", "global_step_45"]
    best = BestCheckpoint(tmp_path, "acc")
    best.on_validation({"acc": 0.9}, 45)  # this run saves every 20 steps
    assert names(tmp_path) == ["global_step_40", "global_step_50_hf", "superseded"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())
