"""The wheel: built from a clean copy, installed beside this environment's packages, used from an
empty directory.
"""

import base64
import gzip
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from recipes.demo.make_policy import CHAT_TEMPLATE, SPECIAL, make_model

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
# What setup.py reads; a copy without build folders, because stale ones leak deleted files into
# wheels.
SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "rltf_verl", "hydra_configs")
CONTENTS = (
    "rltf_verl/**/*.py",
    "rltf_verl/**/*.j2",
    "rltf_verl/py.typed",
    "hydra_configs/**/*.yaml",
)
PATHS = sysconfig.get_paths()


def run(
    command: list[str], folder: Path, *, ok: bool = True, timeout: float = 300, **env: str
) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    output = done.stdout + done.stderr
    assert (done.returncode == 0) is ok, output[-3000:]
    return output


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, source)
    run([sys.executable, "-m", "build", "--no-isolation"], source)  # the wheel from the archive
    return next((source / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of an environment with our wheel and, behind it, the packages of this one.

    They are on the path, but this environment's .pth files are not read: an editable install of
    ours is not found.
    """
    folder = tmp_path_factory.mktemp("venv")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
    site = next(folder.glob("lib/python*/site-packages"))
    others = dict.fromkeys((PATHS["purelib"], PATHS["platlib"]))
    (site / "others.pth").write_text("\n".join(others) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    run([*pip, "install", "-q", "--no-deps", "--no-index", "--force-reinstall", str(wheel)], folder)
    where = run(
        [str(folder / "bin" / "python"), "-c", "import rltf_verl; print(rltf_verl.__file__)"],
        folder,
    )
    assert where.strip().startswith(str(site))
    return folder / "bin"


def test_the_wheel_holds_what_is_not_python(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = [path for pattern in CONTENTS for path in ROOT.glob(pattern)]
    assert len(expected) > 50
    assert {str(path.relative_to(ROOT)) for path in expected} <= names
    assert not [name for name in names if name.startswith(("tests/", "recipes/", "benchmarks/"))]


def test_the_doctor_is_green_from_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    assert "all is well" in run([str(installed / "rltf"), "doctor"], tmp_path, VERL_PLATFORM="cpu")


README = (ROOT / "README.md").read_text("utf-8")
HUB_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""Of the README's first block."""
PROGRAMS = {
    "pip": "#!/bin/sh\n",  # the wheel is installed
    "curl": f'#!/bin/sh\ncp "{ROOT}/docs/examples/$(basename "$2")" .\n',
}


def cached_model(home: Path) -> None:
    """A tiny policy that speaks at random, as the hub's cache has the block's model."""
    core = Tokenizer(models.BPE(byte_fallback=False, unk_token=SPECIAL["unk_token"]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    special = [*SPECIAL.values(), "<user>", "<assistant>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=special, initial_alphabet=alphabet
    )
    core.train_from_iterator(README.splitlines(), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **SPECIAL)
    tokenizer.chat_template = CHAT_TEMPLATE
    repository = home / "hub" / f"models--{HUB_MODEL.replace('/', '--')}"
    snapshot = repository / "snapshots" / "0"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0")
    make_model(len(tokenizer), seed=0).save_pretrained(snapshot)
    tokenizer.save_pretrained(snapshot)


def test_the_first_block_of_the_readme_runs_as_it_stands(installed: Path, tmp_path: Path) -> None:
    """From an empty folder, with the wheel; programs that load from the network load from here."""
    folder, programs = tmp_path / "empty", tmp_path / "programs"
    for path in (folder, programs):
        path.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text, "utf-8")
        (programs / name).chmod(0o755)
    cached_model(tmp_path / "huggingface")
    block = re.findall(r"```bash\n(.*?)```", README, re.S)[0]
    assert HUB_MODEL in block
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="rltf", ignore_cleanup_errors=True) as ray:
        run(
            ["bash", "-ec", block],
            folder,
            timeout=900,
            PATH=f"{programs}:{installed}:{os.environ['PATH']}",
            HF_HOME=str(tmp_path / "huggingface"),
            HF_HUB_OFFLINE="1",
            RAY_TMPDIR=ray,
        )
    page = (folder / "page.html").read_text("utf-8")
    parts = re.findall(r'<script type="text/plain" id="[^"]*">(.*?)</script>', page, re.S)
    shown = b"".join(gzip.decompress(base64.b64decode(part)) for part in parts).decode()
    assert "What do both cost?" in shown
    assert "Write the sum only" in shown


COMPOSE_ALL = """
import sys
from pathlib import Path
import verl
from hydra import compose, initialize_config_dir
for folder in map(Path, sys.argv[1:]):
    for file in sorted(folder.glob("[!_]*.yaml")):
        with initialize_config_dir(str(folder), version_base=None):
            config = compose(file.stem)
        print(folder.name, file.stem, config.get("rltf", {}).get("env", {}).get("name", "sft"))
"""
PLUGIN = {
    "discovered": {"VERL_USE_EXTERNAL_PLUGINS": "auto"},
    "named": {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "rltf_verl.plugin"},
}


@pytest.mark.parametrize("how", ["discovered", pytest.param("named", marks=pytest.mark.nightly)])
def test_every_recipe_composes_from_a_copied_folder(
    installed: Path, tmp_path: Path, how: str
) -> None:
    """Our groups are found by the search path that stands in each config, wherever its folder
    is.
    """
    folders = sorted((ROOT / "recipes").glob("*/config"))
    copies = [Path(shutil.copytree(folder, tmp_path / folder.parent.name)) for folder in folders]
    (tmp_path / "empty").mkdir()
    command = [str(installed / "python"), "-c", COMPOSE_ALL, *map(str, copies)]
    composed = run(command, tmp_path / "empty", **PLUGIN[how]).splitlines()
    experiments = [file for folder in folders for file in folder.glob("[!_]*.yaml")]
    assert len(experiments) >= 10
    names = {tuple(line.split()[:2]) for line in composed if len(line.split()) == 3}
    assert {(file.parents[1].name, file.stem) for file in experiments} <= names
