"""The page's modules as one script.

The content policy of the page names the hash of a single script, and such a script cannot import
another one. So each module becomes a function with its scope, and its exports become
`modules['<name>'].<export>`, where a name is the path in the page's folder. An importer reads an
export once: only functions and constants are exported.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter

# import { el, visible } from "../elements.js";
_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.\.?/[\w/]+)\.js";$', re.M)
# export function draw() …, export async function …, export const SPLITS = …
_EXPORT = re.compile(r"^export (?=(?:async )?function (\w+)|const (\w+))", re.M)
_OTHER = re.compile(r"^\s*(?:import|export)\b.*", re.M)


def bundle(read: Callable[[str], str], entry: str) -> str:
    """A script that runs module `entry` after all modules that it needs.

    Args:
        read: path of a module, without `.js` -> its source.

    Raises:
        ValueError: on an import or export of another form than the above, on a name that is not
            exported, and on modules that import each other in a circle.
    """
    imports: dict[str, dict[str, list[str]]] = {}
    exports: dict[str, list[str]] = {}
    bodies: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in bodies:
            continue
        source = read(name)
        imports[name] = {}
        for names, path in _IMPORT.findall(source):
            module = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if module in imports[name]:
                raise ValueError(f"{name}.js imports {module}.js twice; join the two lines")
            imports[name][module] = [word for word in map(str.strip, names.split(",")) if word]
        exports[name] = [function or constant for function, constant in _EXPORT.findall(source)]
        bodies[name] = _EXPORT.sub("", _IMPORT.sub("", source)).strip()
        if other := _OTHER.search(bodies[name]):
            raise ValueError(f"{name}.js: not supported: {other[0].strip()}")
        waiting += imports[name]

    def function_of(name: str) -> str:
        lines = []
        for path, words in imports[name].items():
            if missing := [word for word in words if word not in exports[path]]:
                raise ValueError(f"{name}.js: {path}.js does not export {missing[0]}")
            lines.append(f"const {{ {', '.join(words)} }} = modules['{path}'];")
        body = "\n".join([*lines, bodies[name], f"return {{ {', '.join(exports[name])} }};"])
        return f"modules['{name}'] = (() => {{\n{body}\n}})();"

    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other: {' → '.join(error.args[1])}") from None
    return "\n".join(['"use strict";', "const modules = {};", *map(function_of, order)])
