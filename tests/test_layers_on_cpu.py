"""The house: imports run in no circle and point down, and verl is known in one folder."""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1] / "rltf_verl"

FLOORS = (
    "rltf_verl",
    # words
    "texts",
    "stuck",
    "redaction",
    "kinds",
    "findings",
    "types",
    "registry",
    "jsonl",
    "policy",
    "config",
    "searchpath",
    "hardware",
    # the method
    "algos",
    "prompts",
    "judge",
    "envs",
    "feedback",
    "episode",
    "objectives",
    "runlog",
    "data",
    # verl
    "sampler",
    "adapters",
    "adapters.compat",
    "adapters.seams",
    "adapters.console",
    "adapters.registered",
    "adapters.queue",
    "adapters.metrics",
    "adapters.rollout",
    "adapters.startup",
    "adapters.training",
    "adapters.driver",
    "adapters.hook",
    "cpu",
    "plugin",
    # the tools
    "tools",
    "tools.compose",
    "tools.doctor",
    "tools.data",
    "tools.feedback",
    "tools.contract",
    "tools.report",
    "tools.export",
    "tools.plan",
    "tools.adopt",
    "tools.evaluate",
    "tools.cli",
)
"""Parts of the package from the ground up: one imports itself and what stands before it."""

THIRD_PARTY = {
    "algos": {"torch"},
    "objectives": {"torch"},
    "envs": {  # where they are needed
        *(
            "numpy",
            "reasoning_gym",
            "datasets",
            "math_verify",
            "sympy",
            "textarena",
            "transformers",
        ),
        *("if_verifiable", "langdetect", "nltk"),
    },
    "prompts": {"jinja2"},
    "judge": {"aiohttp", "certifi", "tenacity"},
    "runlog": {"numpy"},
    "data": {"pyarrow"},
    "tools.data": {"pyarrow", "rich"},
    "tools.report": {"rich", "numpy", "pandas", "matplotlib", "pyarrow"},
    "tools.export": {"torch", "peft", "safetensors", "transformers"},
    "tools.plan": {"omegaconf"},
    "tools.adopt": {"omegaconf"},
    "tools.evaluate": {"omegaconf", "yaml", "rich"},
    "searchpath": {"hydra", "omegaconf"},
    "plugin": {"wrapt"},
    "tools.cli": {"typer", "rich", "omegaconf"},
}
"""Packages beside the standard library that a part may import."""

FREE = {"adapters", "cpu", "sampler", "tools.compose", "tools.doctor"}
"""Parts that know verl and may import what it brings."""


DOTTED = re.compile(r"rltf_verl(\.\w+)+(:\w+)?")
MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


def nodes_of(tree: ast.AST):
    """All nodes, those of functions included, without what only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes_of(node)


def imports_of(nodes) -> set[str]:
    """Dotted names of all modules that the nodes import."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (parts & MODULES.keys()) or {node.module}
    return names


def named_by(nodes) -> set[str]:
    """Modules that strings name, with an attribute or without: they are imported by these names."""
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    dotted = {text.partition(":")[0] for text in texts if DOTTED.fullmatch(text)}
    return {name if name in MODULES else name.rpartition(".")[0] for name in dotted}


@cache
def trees() -> dict[str, ast.Module]:
    return {module: ast.parse(path.read_text("utf-8")) for module, path in MODULES.items()}


@cache
def imports() -> dict[str, set[str]]:
    """Module -> what it imports, by a statement or by a name in a string."""
    return {
        module: imports_of(nodes_of(tree)) | named_by(nodes_of(tree)) - {module}
        for module, tree in trees().items()
    }


def part_of(module: str) -> str:
    """The floor that a module stands on: `adapters` and `tools` have one per folder."""
    _, *parts = module.split(".")
    return ".".join(parts[: 1 + (parts[0] in {"adapters", "tools"})]) if parts else "rltf_verl"


def test_no_import_runs_in_a_circle() -> None:
    # But through a registry: a package's table of its own modules, which may hold each other.
    graph = {
        module: names
        & MODULES.keys()
        - {name for name in named_by(nodes_of(trees()[module])) if name.startswith(f"{module}.")}
        for module, names in imports().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_arrows_point_down() -> None:
    floor = {part: k for k, part in enumerate(FLOORS)}
    offenders = [
        f"{module} imports {name}"
        for module, names in imports().items()
        for name in names & MODULES.keys()
        if floor[part_of(name)] > floor[part_of(module)]
    ]
    assert not offenders


def test_the_reports_import_only_what_they_share() -> None:
    """The folders of `tools.report`; its modules, `evaluation` and `terminal` are for all."""
    shared = {"evaluation", "terminal"}
    offenders = [
        f"{module} imports {name}"
        for module, names in imports().items()
        for name in names
        if module.startswith("rltf_verl.tools.report.") and name.count(".") > 3
        if name.startswith("rltf_verl.tools.report.")
        and name.split(".")[3] not in shared | {module.split(".")[3]}
    ]
    assert not offenders


def test_a_part_imports_no_package_but_its_own() -> None:
    offenders = [
        f"{module} imports {top}"
        for module, names in imports().items()
        for top in (
            {name.partition(".")[0] for name in names} - {"rltf_verl"} - sys.stdlib_module_names
        )
        if part_of(module) not in FREE and part_of(module).partition(".")[0] not in FREE
        if top not in THIRD_PARTY.get(part_of(module), set())
    ]
    assert not offenders


def test_the_command_line_imports_nothing_before_it_must() -> None:
    top = {
        name
        for module, tree in trees().items()
        if part_of(module) == "tools.cli" and module != "rltf_verl.tools.cli.judge_trial"
        for name in imports_of(tree.body)
        if name.startswith("rltf_verl")
    }
    assert {part_of(name) for name in top} == {"stuck", "tools.cli"}
