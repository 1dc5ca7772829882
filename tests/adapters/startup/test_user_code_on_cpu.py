"""A user's code that cannot be caught: refused in one line that names its key."""

from pathlib import Path

import pytest

from rltf_verl.adapters.startup import user_code
from rltf_verl.adapters.startup.files import resolve_files
from rltf_verl.adapters.startup.user_code import fatal_code
from rltf_verl.config import ConfigError
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.registry import load
from tests.support.configs import composed

BASELINE = "import os, sys, time, torch\ndef baseline(episodes):\n    {}\n"
ZERO = "return torch.zeros_like(episodes.rewards)"
FATAL = {
    "a baseline that ends its process": (BASELINE.format("os._exit(3)"), "ends its process (3)"),
    "a baseline that never returns": (BASELINE.format("time.sleep(99)"), "does not return in 1 s"),
    "a file that ends its process": ("import os\nos._exit(0)\n", "ends its process (0)"),
}
HARMLESS = {
    "it raises": BASELINE.format("raise SystemExit(3)"),
    "it prints much": BASELINE.format(f"print('x' * 2_000_000)\n    {ZERO}"),
    "its copy ends": BASELINE.format(f"if os.fork() == 0:\n        os._exit(0)\n    {ZERO}"),
}


@pytest.fixture
def fate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(user_code, "DEADLINE_S", 30.0)

    def of(text: str):
        (tmp_path / "mine.py").write_text(text)
        where = f"rltf.distill.baseline={tmp_path}/mine.py:baseline"
        config = composed("rltf_sd", "rltf/hardware=cpu", where)
        resolve_files(config)
        return fatal_code(config, DryRun())

    return of


@pytest.mark.parametrize("case", FATAL)
def test_what_no_except_catches_is_refused(fate, monkeypatch, case: str) -> None:
    text, why = FATAL[case]
    if "sleep" in text:
        monkeypatch.setattr(user_code, "DEADLINE_S", 1.0)
    finding = fate(text)
    assert finding.key == "rltf.distill.baseline"
    assert why in finding.why


@pytest.mark.parametrize("case", HARMLESS)
def test_what_ends_well_or_raises_is_left_to_other_checks(fate, case: str) -> None:
    assert fate(HARMLESS[case]) is None


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt", "GeneratorExit"])
def test_a_file_that_raises_when_it_is_imported_is_one_line(tmp_path: Path, error: str) -> None:
    (tmp_path / "mine.py").write_text(f"raise {error}\n")
    with pytest.raises(ConfigError, match=error.partition("(")[0]) as refused:
        load("rltf.env.name", f"{tmp_path}/mine.py:Mine")
    assert refused.value.finding.key == "rltf.env.name"


def test_a_class_that_makes_something_else_is_refused(tmp_path: Path) -> None:
    from rltf_verl.envs import make_env

    (tmp_path / "mine.py").write_text("class Mine:\n    def __new__(cls):\n        return None\n")
    with pytest.raises(ConfigError, match="makes None"):
        make_env(f"{tmp_path}/mine.py:Mine")
