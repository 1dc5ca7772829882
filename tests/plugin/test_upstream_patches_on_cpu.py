"""`upstream/*.patch`: each applies to the installed verl, and its own test passes with it and not
without it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import verl

from rltf_verl.adapters.startup.checks import checked_parts
from tests.support.configs import composed

UPSTREAM = Path(__file__).parents[2] / "upstream"
PATCHES = sorted(UPSTREAM.glob("*.patch"))
BUNDLE = [patch for patch in PATCHES if patch.name[0] in "167"]
"""What `upstream/README.md` sends as one."""


@pytest.mark.nightly
def test_the_bundle_applies_as_one_and_all_its_tests_pass(tmp_path: Path) -> None:
    _copy_verl(tmp_path)
    for patch in BUNDLE:
        _apply(patch, tmp_path)
    assert len(list(tmp_path.glob("tests/**/test_*.py"))) == len(BUNDLE) == 3
    assert _tests(tmp_path) == 0


@pytest.mark.parametrize("method", ["sd", "grpo"])
def test_the_launcher_for_verl_recipe_composes(tmp_path: Path, method: str) -> None:
    (tmp_path / "python3").write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.parquet").touch()
    script = UPSTREAM / "verl-recipe/rltf/run_knights_knaves.sh"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DATA": str(tmp_path / "data")}
    ended = subprocess.run(
        ["bash", str(script), method, "data.seed=3"], env=env, capture_output=True, text=True
    )
    module, name, *words = ended.stdout.split()[1:]
    assert (module, name) == ("verl.trainer.main_ppo", f"--config-name=rltf_{method}")
    config = composed(f"rltf_{method}", *words)
    checked_parts(config)
    assert (bool(config.rltf.distill.weight), config.data.seed) == (method == "sd", 3)


@pytest.mark.nightly
@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_patch_does_what_it_says(patch: Path, tmp_path: Path) -> None:
    _copy_verl(tmp_path)
    _apply(patch, tmp_path, "--include=tests/*")
    assert _tests(tmp_path) != 0, "verl has it already: send no patch, drop our workaround"
    _apply(patch, tmp_path, "--exclude=tests/*")
    assert _tests(tmp_path) == 0


def _copy_verl(folder: Path) -> None:
    installed = Path(verl.__file__).parent
    shutil.copytree(installed, folder / "verl", ignore=shutil.ignore_patterns("__pycache__"))


def _apply(patch: Path, folder: Path, *which: str) -> None:
    subprocess.run(["git", "apply", *which, str(patch)], cwd=folder, check=True)


def _tests(folder: Path) -> int:
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests"]
    env = {**os.environ, "PYTHONPATH": str(folder), "VERL_USE_EXTERNAL_PLUGINS": "none"}
    env.pop("VERL_PLATFORM", None)  # that of the CPU is a plugin's
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, check=False).returncode
