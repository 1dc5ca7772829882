"""The tables of docs/troubleshooting.md, from rules; `tools/refresh.py` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reference import ROOT, cell

from rltf_verl.adapters.startup.rules import RLTF, VERL
from rltf_verl.judge.failure_log import BY_STATUS, FIXES
from rltf_verl.runlog.health import RULES
from rltf_verl.tools.plan.advice import RULES as ADVICE

# A refusal and `rltf plan` name such a fix with the key.
ONE_VALUE = re.compile(r"set it to \S+( \S+ number)?")
PAGE = ROOT / "docs" / "troubleshooting.md"


def with_tables(text: str) -> str:
    """The page with its tables from the rules."""
    settings = (rule for rule in (*VERL, *RLTF) if rule.level == "error")
    rules = [
        (f"`{rule.key}`", rule.fix)
        for rule in (*settings, *ADVICE)
        if not ONE_VALUE.fullmatch(rule.fix)
    ]
    health = [(f"warning: {r.key}", f"{r.steps} steps", r.fix) for r in RULES]
    faults = [(f"judge: {kind}", "once", fix) for kind, fix in (FIXES | BY_STATUS).items()]
    text = _between(text, "rules", ("key", "what to do"), rules)
    return _between(text, "warnings", ("line", "after", "what to do"), [*health, *faults])


def _between(text: str, name: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """The text with a table between the marks of a name."""
    start, end = f"<!-- {name}: python tools/refresh.py -->\n", f"<!-- end of {name} -->"
    lines = [head, ("---",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{table}\n\n{end}{rest.partition(end)[2]}"
