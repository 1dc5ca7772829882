"""The metrics of an earlier process are moved aside when a run is resumed, and only then."""

from types import SimpleNamespace

import pytest
import verl.trainer.ppo.v1  # noqa: F401 - it imports our trainers when it is whole
from omegaconf import OmegaConf

from rltf_verl.adapters.compat import keep_earlier_metrics
from rltf_verl.adapters.training.trainer import RLTFTrainerMixin


class Base:
    """Loads a checkpoint of this step."""

    global_steps = 0
    step = 0

    def _load_checkpoint(self):
        self.global_steps = self.step


class Trainer(RLTFTrainerMixin, Base):
    """What is left of a trainer when only the checkpoint counts."""

    def __init__(self, step, loggers=("console", "file")):
        self.step = step
        self.rltf = SimpleNamespace(episode_log=SimpleNamespace(dir=None))
        self.config = OmegaConf.create(
            {"trainer": {"logger": list(loggers), "resume_mode": "disable"}}
        )


@pytest.mark.parametrize(
    ("step", "loggers", "kept"),
    [(0, ["file"], False), (7, ["file"], True), (7, ["console"], False)],
)
def test_a_resumed_run_keeps_its_metrics(tmp_path, monkeypatch, step, loggers, kept):
    path = tmp_path / "metrics.jsonl"
    path.write_text("earlier")
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    Trainer(step, loggers)._load_checkpoint()
    assert (tmp_path / "metrics.process_1.jsonl").exists() is kept
    assert path.exists() is not kept


def test_a_disk_that_refuses_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    (tmp_path / ("x" * 250)).write_text("earlier")  # the longer name is too long
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / ("x" * 250)))
    keep_earlier_metrics(OmegaConf.create({"trainer": {"logger": "file"}}))
    assert "will be erased" in caplog.text
