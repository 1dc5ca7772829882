"""A checkpoint of another method or dataset is not resumed silently: the real functions on composed
configurations.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
import verl  # noqa: F401  # registers our search path with Hydra
from omegaconf import OmegaConf

from rltf_verl.adapters.startup import stamp
from rltf_verl.adapters.startup.checks import checked_parts, require
from rltf_verl.config import ConfigError
from rltf_verl.tools.data.build import build_parquet
from tests.support.configs import composed


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return build_parquet("binary_matrix", tmp_path_factory.mktemp("data"), 0, 4, 2)


@pytest.fixture
def run(tmp_path, data):
    """A config by name and overrides, in one folder of checkpoints."""

    def make(name, *overrides):
        return composed(
            name,
            "rltf/hardware=cpu",
            "actor_rollout_ref.model.path=/model",
            f"trainer.default_local_dir={tmp_path}",
            f"trainer.resume_from_path={tmp_path}/global_step_2",
            f"data.train_files={data.train}",
            f"data.val_files={data.test}",
            *overrides,
        )

    return make


def saved(config, step=2):
    """What the trainer leaves after a checkpoint."""
    folder = Path(config.trainer.default_local_dir)
    stamp.write_stamp(config, checked_parts(config).config, step)
    (folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    saved = folder / f"global_step_{step}"
    (saved / "actor").mkdir()
    for path in (saved / "actor" / "model.pt", saved / "data.pt"):
        torch.save(list(range(1000)), path)
    return saved


def resume(config):
    require(stamp.check_resume(config, checked_parts(config).config))
    return stamp.resumed_folder(config)


FOLDER, LR = "trainer.default_local_dir", "actor_rollout_ref.actor.optim.lr"
FASTER = ["rltf_sd", f"{LR}=1e-4"]


@pytest.mark.parametrize(
    ("before", "now", "key", "why"),
    [
        # another method
        (["rltf_grpo"], ["rltf_sd"], FOLDER, "rltf.distill.weight: 0.0 there, 0.1 here"),
        (["rltf_grpo"], ["rltf_sd", "trainer.resume_mode=resume_path"], FOLDER, "another"),
        # what decides what is trained, with both values
        (
            ["rltf_sd"],
            ["rltf_sd", "actor_rollout_ref.model.path=/other"],
            FOLDER,
            "(actor_rollout_ref.model.path: /model there, /other here)",
        ),
        (["rltf_sd"], ["rltf_sd", "rltf.seed=1"], FOLDER, "(rltf.seed: 0 there, 1 here)"),
        (
            ["rltf_sd"],
            ["rltf_sd", "+rltf.env.n_max=4"],
            FOLDER,
            "(rltf.env.options.n_max: None there, 4 here)",
        ),
        (
            ["rltf_sd"],
            ["rltf_sd", "actor_rollout_ref.rollout.n=4"],
            FOLDER,
            "(actor_rollout_ref.rollout.n: 8 there, 4 here)",
        ),
        # a learning rate that the checkpoint's would override
        (FASTER, ["rltf_sd", f"{LR}=1e-5"], LR, "0.0001"),
        # what may change
        (["rltf_grpo"], ["rltf_grpo"], None, ""),
        (["rltf_grpo"], ["rltf_sd", "trainer.resume_mode=disable"], None, ""),
        (
            ["rltf_sd"],
            [
                "rltf_sd",
                "trainer.total_training_steps=99",
                "trainer.logger=[file]",
                "trainer.save_freq=7",
                "trainer.test_freq=3",
                "trainer.n_gpus_per_node=2",
                "rltf.episode_log.ids=true",
                "rltf.episode.stop_when_solved_val=true",
            ],
            None,
            "",
        ),
        # a validation alone may ask more turns of a checkpoint
        (["rltf_sd"], ["rltf_sd", "trainer.val_only=true", "rltf.episode.horizon=3"], None, ""),
        # a new optimiser
        (
            FASTER,
            [
                "rltf_sd",
                f"{LR}=1e-5",
                "actor_rollout_ref.actor.checkpoint.load_contents=[model]",
            ],
            None,
            "",
        ),
    ],
)
def test_a_checkpoint_of_another_experiment_is_refused(run, before, now, key, why):
    saved(run(*before))
    config = run(*now)
    found = list(stamp.check_resume(config, checked_parts(config).config))
    assert [(f.key, f.level) for f in found] == ([(key, "error")] if key else [])
    assert why in " ".join(f.why for f in found)


def test_the_same_rows_elsewhere_are_the_same_data_and_others_are_not(run, tmp_path):
    saved(run("rltf_sd"))
    again = build_parquet("binary_matrix", tmp_path / "again", 0, 4, 2)
    resume(run("rltf_sd", f"data.train_files=[{again.train}]"))
    other = build_parquet("binary_matrix", tmp_path / "other", 1, 4, 2)
    with pytest.raises(
        ConfigError, match=r"data.train_files: \['4 rows, sha256 \w{16}'\] there, \['4 rows, sha256"
    ):
        resume(run("rltf_sd", f"data.train_files={other.train}"))


def test_a_checkpoint_of_an_older_version_is_one_warning(run):
    config = run("rltf_sd")
    folder = saved(config)
    (folder / stamp.STAMP).unlink()
    (finding,) = stamp.check_resume(config, checked_parts(config).config)
    assert finding.level == "warning"
    assert str(folder) in finding.why


@pytest.mark.parametrize("damaged", ["", '{"rltf.gamma"', "[]"])
def test_a_stamp_that_cannot_be_read_is_refused_by_its_path(run, damaged):
    folder = saved(run("rltf_sd"))
    (folder / stamp.STAMP).write_text(damaged)
    with pytest.raises(ConfigError, match=rf"{folder / stamp.STAMP} cannot be read .* delete it"):
        resume(run("rltf_sd"))


def test_a_checkpoint_that_cannot_be_written_names_its_folder(run, tmp_path):
    config = run("rltf_sd")
    with (
        pytest.raises(RuntimeError, match=rf"{tmp_path}: the checkpoint of step 4 .* No space"),
        stamp.whole_checkpoint(config, 4),
    ):
        raise OSError(28, "No space left on device")


def test_the_way_back_is_to_the_last_checkpoint_before_it_went_wrong(run, tmp_path):
    config = run("rltf_sd")
    assert "trainer.save_freq" in stamp.how_to_go_back(config, 8)
    for step in (4, 8, 12):
        (tmp_path / f"global_step_{step}" / "actor").mkdir(parents=True)
    (tmp_path / "global_step_10").mkdir()  # verl has deleted its weights
    for step, kept in ((8, 8), (11, 8), (30, 12)):
        assert f"trainer.resume_from_path={tmp_path}/global_step_{kept})" in stamp.how_to_go_back(
            config, step
        )
    assert "trainer.save_freq" in stamp.how_to_go_back(config, 3)


def test_a_key_that_the_older_version_did_not_have_is_no_difference(run):
    folder = saved(run("rltf_sd"))
    old = json.loads((folder / stamp.STAMP).read_text())
    del old["rltf.distill.loss.clip_low"]
    (folder / stamp.STAMP).write_text(json.dumps({**old, "rltf.gone": 1}))
    resume(run("rltf_sd"))


EPOCHS = ["data.train_batch_size=2", "trainer.total_training_steps=null"]  # of four rows


@pytest.mark.parametrize(
    ("overrides", "done"),
    [
        (["trainer.total_training_steps=8"], True),
        (["trainer.total_training_steps=9"], False),
        (["trainer.total_training_steps=8", "trainer.val_only=true"], False),
        (["trainer.total_training_steps=8", "trainer.resume_mode=disable"], False),
        ([*EPOCHS, "trainer.total_epochs=4"], True),
        ([*EPOCHS, "trainer.total_epochs=5"], False),
    ],
)
def test_a_run_without_a_step_left_is_finished(run, overrides, done):
    assert stamp.finished(run("rltf_sd", *overrides)) is None
    saved(run("rltf_sd"), step=8)
    line = stamp.finished(run("rltf_sd", *overrides))
    assert ("step 8 of 8" in str(line)) == done
    assert (line is None) != done


def test_the_folder_holds_the_command_and_the_config_without_secrets(run, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_API_KEY", "0a1b2c3d4e5f6a7b")
    monkeypatch.setattr("sys.orig_argv", ["python", "-m", "x", "+key=0a1b2c3d4e5f6a7b", "a=b c"])
    secret = (
        "+ray_kwargs.ray_init.runtime_env.env_vars={A_TOKEN: f00d1234beef, B: Bearer sk-1a2b3c4d5e}"
    )
    config = run("rltf_sd", secret, "rltf.feedback.level=hint")
    stamp.write_config(config)
    text = (tmp_path / "config.yaml").read_text()
    assert text.splitlines()[0].endswith("python -m x +key=*** 'a=b c'")
    assert re.search("a1b2c3d4|1a2b3c4d|f00d1234", text, re.IGNORECASE) is None
    kept, whole = (
        OmegaConf.load(tmp_path / "config.yaml"),
        OmegaConf.to_container(config, resolve=True),
    )
    del kept.ray_kwargs, whole["ray_kwargs"]
    assert OmegaConf.to_container(kept) == whole


def test_a_checkpoint_is_not_written_into_the_files_of_an_earlier_one(run, tmp_path):
    """They may be the best checkpoint's too."""
    folder = saved(run("rltf_sd"))
    (folder / "model.pt").write_text("the best")
    (tmp_path / "kept.pt").hardlink_to(folder / "model.pt")
    again = saved(run("rltf_sd"))
    (again / "model.pt").write_text("another")
    assert (tmp_path / "kept.pt").read_text() == "the best"


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


LATEST = "latest_checkpointed_iteration.txt"


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: cut(folder / LATEST, 0),
        lambda folder: (folder / LATEST).write_bytes(b"\0\0"),
        lambda folder: cut(folder / "global_step_6" / "actor" / "model.pt", 100),
        lambda folder: cut(folder / "global_step_6" / "data.pt", 0),
        lambda folder: shutil.rmtree(folder / "global_step_6" / "actor"),
        lambda folder: shutil.rmtree(folder / "global_step_6"),
    ],
)
def test_a_run_resumes_from_the_newest_whole_checkpoint(run, tmp_path, caplog, damage):
    for step in (2, 4, 6):
        saved(run("rltf_sd"), step)
    assert stamp.resumed_folder(run("rltf_sd")) == tmp_path / "global_step_6"
    saved(run("rltf_sd"), 8)
    (tmp_path / "global_step_8" / "data.pt").unlink()  # killed while it was written
    (tmp_path / LATEST).write_text("6")
    damage(tmp_path)
    chosen = resume(run("rltf_sd"))
    text = (tmp_path / LATEST).read_bytes()
    assert chosen == tmp_path / f"global_step_{4 if text == b'6' else 6}"
    assert str(chosen) in caplog.text
    assert str(tmp_path / LATEST) in caplog.text


def test_without_a_whole_checkpoint_the_file_to_delete_is_named(run, tmp_path):
    folder = saved(run("rltf_sd"))
    cut(folder / "actor" / "model.pt", 100)
    with pytest.raises(ConfigError, match=f"delete {tmp_path / LATEST} "):
        resume(run("rltf_sd"))
    with pytest.raises(ConfigError) as refused:
        resume(run("rltf_sd", "trainer.resume_mode=resume_path"))
    assert refused.value.finding.key == "trainer.resume_from_path"
    assert str(folder / "actor" / "model.pt") in refused.value.finding.why
    (tmp_path / LATEST).unlink()
    assert resume(run("rltf_sd")) is None
