"""The names of the methods, read from their YAML without composing it."""

from __future__ import annotations

from importlib.resources import files


def method_titles() -> dict[str, str]:
    """`rltf/method=<name>` -> the first line that its YAML says of it, sorted by name."""
    folder = files("hydra_configs.rltf_verl").joinpath("rltf", "method")
    files_of = {f.name: f for f in folder.iterdir() if f.is_file()}
    for part in ("release", "teacher"):
        files_of |= {f"{part}/{f.name}": f for f in folder.joinpath(part).iterdir()}
    del files_of["release/base.yaml"]  # what its neighbours share
    return {
        # the first line is `# @package …`
        name.removesuffix(".yaml"): file.read_text("utf-8").splitlines()[1].removeprefix("# ")
        for name, file in sorted(files_of.items())
    }
