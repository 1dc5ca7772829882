"""`rltf env list` and `env show` of every preset."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from rltf_verl import registry
from rltf_verl.envs.base import LEVELS
from rltf_verl.tools.compose.presets import titles
from tests.support.commands import ran, refused

NEED = {
    "textarena": "pip install",
    **dict.fromkeys(("gym_text", "tool_object"), "rltf.env.factory"),
    "corrections": "rltf data corrections",
    "own": "rltf.env.name",
    "reasoning_gym": "rltf.env.task",
    "reward_function": "data.train_files",
    "writing": "rltf.env.path",
}
"""Preset -> what its line asks for."""
DOWNLOADS = ("math",)
INSTALLED = {n for n in ("textarena",) if find_spec(n)}
if find_spec("if_verifiable") is None:
    NEED["instructions"] = "pip install"


@pytest.mark.parametrize("name", sorted({*titles("env")} - {*NEED, *DOWNLOADS}))
def test_a_preset_shows_a_wrong_answer_and_feedback_at_every_level(name: str) -> None:
    shown = ran("env", "show", name).stdout
    assert [shown.count(f"`level={level}`:\n\n~~~text\n") for level in LEVELS] == [1] * len(LEVELS)


@pytest.mark.parametrize("name", sorted({*NEED} - INSTALLED))
def test_a_preset_that_needs_something_names_it(name: str) -> None:
    assert NEED[name] in refused("env", "show", name)


def test_an_installed_packages_environment_is_listed_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "chess_rltf-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chess-rltf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rltf_verl.env]\nchess = chess_rltf:Chess\n")
    code = "from rltf_verl.envs.binary_matrix.env import BinaryMatrix as Chess\n"
    (tmp_path / "chess_rltf.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "installed", registry.installed.__wrapped__)  # without its cache
    listed = ran("env", "list").stdout
    assert "rltf.env.name=chess" in listed
    assert "chess_rltf:Chess" in listed
    assert "`level=hint`" in ran("env", "show", "chess").stdout
