"""The choices of a group, read from their YAML without composing it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def titles(group: str) -> dict[str, str]:
    """`rltf/<group>=<name>` -> the first line that its YAML says of it, sorted by name."""
    folder = Path(str(files("hydra_configs.rltf_verl"))) / "rltf" / group
    texts = {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*.yaml")
    }
    texts.pop("release/base", None)  # what its neighbours share
    # the first line is `# @package …`
    return {name: texts[name].splitlines()[1].removeprefix("# ") for name in sorted(texts)}
