"""Arrows between layers point down, and verl is known in one folder."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "rltf_verl"
FRAMEWORKS = {"verl", "ray", "tensordict", "transfer_queue", "hydra"}

# layer -> the layers that it may import beside itself
LAYERS = {
    "texts": set(),
    "redaction": {"texts"},
    "types": {"texts"},
    "config": {"kinds"},
    "registry": {"kinds"},
    "kinds": set(),
    "jsonl": {"redaction"},
    "searchpath": set(),
    "policy": {"types"},
    "algos": {"types", "config"},
    "prompts": {"policy", "types", "registry", "texts"},
    "judge": {"types", "registry", "kinds", "jsonl", "redaction", "texts"},
    "envs": {"kinds", "judge", "prompts", "types", "registry"},
    "feedback": {"kinds", "judge", "envs", "prompts", "policy", "types", "registry", "jsonl", "redaction", "texts"},
    "episode": {"feedback", "envs", "prompts", "policy", "config", "types"},
    "data": {"envs", "prompts", "report", "types", "registry", "__init__"},
    "parity": {"algos", "episode", "feedback", "envs", "policy", "config", "types"},
    "report": {"types", "envs", "parity", "jsonl", "registry"},
    "plugin": {"adapters", "searchpath"},
    "adapters": {"algos", "episode", "feedback", "judge", "envs", "prompts", "data", "report", "config", "types",
                 "registry", "searchpath", "jsonl", "redaction", "texts"},
    "evaluate": {"data", "episode", "feedback", "envs", "judge", "prompts", "report", "config", "types", "registry"},
    "contract": {"envs", "feedback", "types"},
    "cli": {"cli_compare", "cli_data", "cli_env", "cli_eval", "cli_log", "cli_options", "cli_probe", "cli_seeds",
            "cli_view", "data", "envs", "feedback", "parity", "report", "adapters"},
    "cli_compare": {"report"},
    "cli_data": {"cli_options", "data", "prompts", "report"},
    "cli_env": {"cli", "cli_options", "contract", "envs", "report"},
    "cli_eval": {"cli", "cli_options", "data", "evaluate", "report"},
    "cli_log": {"cli", "data", "report"},
    "cli_seeds": {"cli_compare"},
    "cli_probe": {"cli", "cli_eval", "cli_options", "evaluate", "report"},
    "cli_view": {"cli", "report"},
    "cli_options": set(),
    "__init__": set(),
}  # fmt: skip

# layer -> third-party packages that it may import; layers that are not named here: none
THIRD_PARTY = {
    "algos": {"torch"},
    "envs": {"numpy", "reasoning_gym", "datasets", "math_verify", "sympy"},  # inside functions that need them
    "prompts": {"jinja2"},
    "judge": {"httpx", "tenacity"},
    "data": {"pyarrow", "rich", "transformers"},
    "parity": {"torch"},
    "report": {"rich", "numpy", "matplotlib", "pyarrow"},
    "evaluate": {"omegaconf", "yaml"},
    "searchpath": {"hydra", "omegaconf"},
    "plugin": {"wrapt"},
    "cli": {"typer"},
    "cli_compare": {"typer"},
    "cli_data": {"typer"},
    "cli_env": {"typer"},
    "cli_eval": {"typer", "rich"},
    "cli_log": {"typer"},
    "cli_probe": {"typer"},
    "cli_seeds": {"typer"},
    "cli_view": {"typer"},
}
FILES = sorted(ROOT.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(nodes) -> list[str]:
    """Dotted names of all modules imported by the nodes; `from rltf_verl import x` counts as `rltf_verl.x`."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            own = node.module == "rltf_verl"
            names += [f"rltf_verl.{alias.name}" for alias in node.names] if own else [node.module]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_point_down(path: Path) -> None:
    layer = layer_of(path)
    for name in imports_of(ast.walk(ast.parse(path.read_text("utf-8")))):
        top, _, rest = name.partition(".")
        if top == "rltf_verl":
            target = "__init__" if rest == "__version__" else rest.partition(".")[0]
            assert target == layer or target in LAYERS[layer], f"{layer} must not import {name}"
        elif top not in sys.stdlib_module_names and layer != "adapters":
            assert top in THIRD_PARTY.get(layer, set()), f"{layer} must not import {name}"


def test_every_layer_stands_in_the_picture() -> None:
    assert {layer_of(path) for path in FILES} <= set(LAYERS)


def test_frameworks_are_known_in_the_adapters_only() -> None:
    for path in FILES:
        if layer_of(path) not in ("adapters", "searchpath"):
            names = imports_of(ast.walk(ast.parse(path.read_text("utf-8"))))
            assert not {name.partition(".")[0] for name in names} & FRAMEWORKS, path


def test_the_command_line_imports_nothing_before_it_must() -> None:
    parts = [ast.parse(path.read_text("utf-8")) for path in ROOT.glob("cli*.py")]
    top = [name for part in parts for name in imports_of(part.body) if name.startswith("rltf_verl")]
    assert all(name.startswith("rltf_verl.cli_") for name in top), top
