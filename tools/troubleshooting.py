"""The tables of docs/troubleshooting.md, from rules; `tools/refresh.py` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reference import ROOT, cell

from rltf_verl.adapters.startup.rules import VERL
from rltf_verl.runlog.health import RULES

# Such a fix needs no table: the refusal names it with the key.
ONE_VALUE = re.compile(r"set it to \S+( \S+ number)?")
PAGE = ROOT / "docs" / "troubleshooting.md"


def with_tables(text: str) -> str:
    """The page with its tables from the rules."""
    refused = [rule for rule in VERL if rule.level == "error" and not ONE_VALUE.fullmatch(rule.fix)]
    settings = [(f"`{rule.key}`", rule.fix) for rule in refused]
    health = [(rule.key, f"{rule.steps}", rule.fix) for rule in RULES]
    text = _between(text, "rules", ("key", "what to do"), settings)
    return _between(text, "warnings", ("warning", "after steps", "what to do"), health)


def _between(text: str, name: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """The text with a table between the marks of a name; rows that differ only at first are one."""
    start, end = f"<!-- {name}: python tools/refresh.py -->\n", f"<!-- end of {name} -->"
    groups: dict[tuple[str, ...], list[str]] = {}
    for key, *cells in rows:
        groups.setdefault(tuple(cells), []).append(key)
    merged = [(", ".join(keys), *cells) for cells, keys in groups.items()]
    lines = [head, ("---",) * len(head), *merged]
    table = "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{table}\n\n{end}{rest.partition(end)[2]}"
