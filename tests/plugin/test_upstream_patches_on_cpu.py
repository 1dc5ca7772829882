"""`upstream/*.patch`: each applies to the installed verl, and its own test passes with it and not
without it. The contract with verl (`test_verl_contract_on_cpu.py`) against the oldest version that
we allow and the newest that pip finds, which may be one that we do not know yet.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import metadata
from pathlib import Path

import pytest
import verl
from packaging.requirements import Requirement

from rltf_verl.adapters.startup.checks import checked_parts
from tests.support.configs import composed

UPSTREAM = Path(__file__).parents[2] / "upstream"
PATCHES = sorted(UPSTREAM.glob("*.patch"))
SENT = [[patch] for patch in PATCHES] + [[patch for patch in PATCHES if patch.name[0] in "167"]]
"""Each alone, and those that `upstream/README.md` sends as one."""


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


REQUIRED = sorted(UPSTREAM.rglob("REQUIRED_VERL.txt"))


@pytest.mark.parametrize("path", REQUIRED, ids=lambda path: path.parent.name)
def test_the_installer_of_verl_recipe_can_use_the_required_verl(path: Path) -> None:
    """It gives the line to bash, with its own pip in the place of a leading `pip`."""
    fields = dict(re.findall(r"^(\w+)=(.*)$", path.read_text("utf-8"), re.MULTILINE))
    assert (fields["MODE"], fields["TAG"]) == ("pinned_tag", f"v{verl.__version__}")
    pip, command, *wanted = shlex.split(fields["PIP_INSTALL"])
    assert [pip, command] == ["pip", "install"]
    names = [Requirement(each) for each in wanted]
    assert [each.name for each in names] == ["verl", "rltf-verl"]
    assert names[0].specifier.contains(verl.__version__)
    assert names[1].extras <= set(metadata("rltf-verl").get_all("Provides-Extra"))


@pytest.mark.nightly
@pytest.mark.parametrize("patches", SENT, ids=lambda patches: " ".join(p.stem for p in patches))
def test_a_patch_does_what_it_says(patches: list[Path], tmp_path: Path) -> None:
    shutil.copytree(
        Path(verl.__file__).parent,
        tmp_path / "verl",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for patch in patches:
        _apply(patch, tmp_path, "--include=tests/*")
    assert _tests(tmp_path) != 0, "verl has it already: send no patch, drop our workaround"
    for patch in patches:
        _apply(patch, tmp_path, "--exclude=tests/*")
    assert _tests(tmp_path) == 0


def _apply(patch: Path, folder: Path, *which: str) -> None:
    subprocess.run(["git", "apply", *which, str(patch)], cwd=folder, check=True)


def _tests(folder: Path) -> int:
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests"]
    env = {**os.environ, "PYTHONPATH": str(folder), "VERL_USE_EXTERNAL_PLUGINS": "none"}
    env.pop("VERL_PLATFORM", None)  # that of the CPU is a plugin's
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, check=False).returncode


ROOT = Path(__file__).parents[2]
CONTRACT = "tests/plugin/test_verl_contract_on_cpu.py"
OLDEST = re.findall(r"verl\[verl-core\]>=([\d.]+\d)", (ROOT / "setup.py").read_text("utf-8"))


def unpacked(wanted: str, folder: Path) -> str:
    """verl's wheel, without its dependencies, which are the installed ones. Returns its version."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip finds no {wanted}: {done.stderr.strip()[-200:]}")
    (wheel,) = folder.glob("verl-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return wheel.name.split("-")[1]


def broken_seams(folder: Path) -> list[str]:
    """Names of the tests of the contract that fail with the verl in `folder`."""
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    where = [sys.executable, "-c", "import verl; print(verl.__file__)"]
    imported = subprocess.check_output(where, env=env, cwd=ROOT, text=True)
    assert imported.strip().startswith(str(folder))
    tests = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", CONTRACT]
    done = subprocess.run(tests, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-2000:]  # 2 and more: pytest itself
    names = re.findall(r"^(?:FAILED|ERROR) \S+?::(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    assert bool(names) == bool(done.returncode)
    return names


@pytest.mark.nightly
def test_every_seam_is_in_the_oldest_verl_that_we_allow(tmp_path: Path) -> None:
    (oldest,) = set(OLDEST)
    assert unpacked(f"verl=={oldest}", tmp_path) == oldest
    assert broken_seams(tmp_path) == []


@pytest.mark.nightly
def test_what_the_newest_verl_has_moved(tmp_path: Path) -> None:
    """Expected to fail one day: docs/architecture.md says what then."""
    version = unpacked("verl", tmp_path)
    moved = broken_seams(tmp_path)
    if moved:
        pytest.xfail(f"verl {version}: {'; '.join(moved)}")
