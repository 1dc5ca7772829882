"""What the demo and the notebook start passes the checks at the start of a run."""

import importlib
import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from rltf_verl.adapters.startup.checks import checked_parts
from tests.e2e import runs
from tests.support.configs import composed

Words = list[str]


def demo() -> list[Words]:
    module = _module("recipes/demo/run_demo")
    return [
        [f"--config-name=rltf_{method}", *module.SETTINGS, *own]
        for method, own in module.METHOD_SETTINGS.items()
    ]


def notebook() -> list[Words]:
    cells = json.loads((runs.ROOT / "docs" / "quickstart.ipynb").read_text())["cells"]
    (cell,) = [c for c in cells if any("words.txt <<END" in line for line in c["source"])]
    text = "".join(cell["source"]).replace("$POLICY", str(runs.POLICY)).replace("$PWD", "o")
    words = text.partition("<<END\n")[2].partition("\nEND")[0].splitlines()
    sources = "".join(chain.from_iterable(c["source"] for c in cells))
    own = {"rltf_grpo": [], "rltf_sd": ["rltf.distill.weight=1.0"]}
    assert all(" ".join([f"--config-name={name}", *more]) in sources for name, more in own.items())
    return [[f"--config-name={name}", *words, *more] for name, more in own.items()]


def _module(path: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        folder, _, name = path.rpartition("/")
        patch.syspath_prepend(str(runs.ROOT / folder))
        return importlib.import_module(name)


@pytest.mark.parametrize(
    "commands",
    [demo, notebook],
)
def test_its_settings_pass_the_checks(commands: Callable[[], list[Words]]) -> None:
    for name, *words in commands():
        checked_parts(composed(name.removeprefix("--config-name="), *words))
