"""The page's modules as one script.

The page's content policy names the hash of a single script, and such a script cannot import from
another one. So each module becomes a function with a scope of its own, and what it exports becomes
`modules['<name>'].<export>`, where a name is the path in the page's folder. An importer reads an
export once: only functions and constants are exported.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

# import { el, visible } from "../elements.js";
_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.\.?/[\w/]+)\.js";$', re.M)
# export function draw() …, export async function …, export const SPLITS = …
_EXPORT = re.compile(r"^export (?=(?:async )?function (\w+)|const (\w+))", re.M)
_OTHER = re.compile(r"^\s*(?:import|export)\b.*", re.M)


@dataclass(frozen=True)
class _Module:
    name: str
    imports: dict[str, list[str]]
    """Module -> names."""
    exports: list[str]
    body: str


def bundle(read: Callable[[str], str], entry: str) -> str:
    """A script that runs module `entry` after all modules that it needs.

    Args:
        read: path of a module, without `.js` -> its source.

    Raises:
        ValueError: on an import or export of another form than the above, on a name that is not
            exported, and on modules that import each other in a circle.
    """
    modules: dict[str, _Module] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules[name] = _parsed(name, read(name))
            waiting += modules[name].imports
    for module in modules.values():
        _require_exports(module, modules)
    order = _ordered(modules.values())
    script = "\n".join(_written(modules[name]) for name in order)
    return f'"use strict";\nconst modules = {{}};\n{script}'


def _parsed(name: str, source: str) -> _Module:
    found = _IMPORT.findall(source)
    imports = {_beside(name, path): re.findall(r"\w+", names) for names, path in found}
    if any(" as " in names for names, _ in found):
        raise ValueError(f"{name}.js: import … as … is not supported")
    exports = [function or constant for function, constant in _EXPORT.findall(source)]
    body = _EXPORT.sub("", _IMPORT.sub("", source))
    if other := _OTHER.search(body):
        raise ValueError(f"{name}.js: not supported: {other[0].strip()}")
    return _Module(name, imports, exports, body.strip())


def _beside(name: str, path: str) -> str:
    """The module that `name` imports as `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _require_exports(module: _Module, modules: dict[str, _Module]) -> None:
    for source, names in module.imports.items():
        if unknown := [name for name in names if name not in modules[source].exports]:
            raise ValueError(f"{module.name}.js: {source}.js does not export {unknown[0]}")


def _ordered(modules: Iterable[_Module]) -> list[str]:
    graph = {module.name: list(module.imports) for module in modules}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other: {' → '.join(error.args[1])}") from None


def _written(module: _Module) -> str:
    imports = "".join(
        f"const {{ {', '.join(names)} }} = modules['{source}'];\n"
        for source, names in module.imports.items()
    )
    body = f"{imports}{module.body}\nreturn {{ {', '.join(module.exports)} }};"
    return f"modules['{module.name}'] = (() => {{\n{body}\n}})();"
