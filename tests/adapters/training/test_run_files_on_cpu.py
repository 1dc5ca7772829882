"""Files of an earlier process are set aside when a run is resumed, and only then."""

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.training.run_files import set_aside_later


def config(*loggers):
    return OmegaConf.create({"trainer": {"logger": list(loggers)}})


@pytest.mark.parametrize(("step", "logger", "kept"), [(0, "file", 0), (7, "file", 1), (7, "x", 0)])
def test_a_resumed_run_keeps_its_metrics(tmp_path, monkeypatch, step, logger, kept):
    path = tmp_path / "metrics.jsonl"
    path.write_text("earlier")
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    set_aside_later(config("console", logger), None, step)
    assert (tmp_path / "metrics.process_1.jsonl").exists() == kept != path.exists()


def test_a_disk_that_refuses_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    (tmp_path / ("x" * 250)).write_text("earlier")  # the longer name is too long
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / ("x" * 250)))
    set_aside_later(config("file"), None, 7)
    assert "will be erased" in caplog.text
