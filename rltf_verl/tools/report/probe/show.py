"""A probe as tables, lines and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console

from rltf_verl.texts import counted
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.show import shown as in_per_cent
from rltf_verl.tools.report.probe.measures import LABELS
from rltf_verl.tools.report.probe.rules import Probe, advise, expected, expected_line, share_text
from rltf_verl.tools.report.terminal.console import Table, say, show_table, table

STYLES = {"go": "green", "change first": "red", "too few episodes": "yellow"}


def share_table(probe: Probe) -> Table:
    """A line per measure."""
    sizes = asdict(probe.run)
    lines = [(label.format(**sizes), _value(name, probe[name])) for name, label in LABELS.items()]
    return table(("", "per cent [95 %] of"), lines)


def _value(name: str, share: Estimate) -> str:
    """The improvement is a difference, not a share."""
    if name == "improvement" and share.value is not None:
        return f"{in_per_cent(share, signed=True)} of {share.cases}"
    return share_text(share).replace(" %", "")


def length_table(probe: Probe) -> Table:
    """A line per kind of text."""
    lines = [
        (name.replace("_", " "), f"{s.median:g}", f"{s.p90:g}", f"{s.longest:g}", s.cases)
        for name, s in probe.measured.lengths.items()
        if s is not None
    ]
    return table(("length", "median", "90 %", "longest", "of"), lines)


DISTANCE = "second answers' distance from the student: a run's rltf/distill/log_prob_gap"


def show(probe: Probe) -> None:
    """Print the tables, then what to do."""
    out = Console()
    episodes, problems = probe.measured.sessions, probe.measured.problems
    head = f"{counted(episodes, 'episode')} at {counted(problems, 'problem')}"
    say(out, "", f"{head}; intervals by bootstrap over problems", "")
    for lines in (share_table(probe), length_table(probe)):
        show_table(lines)
    say(out, "", DISTANCE, "")
    say(out, "", expected_line(probe), "")
    verdict, findings, inconclusive = advise(probe)
    for finding in findings:
        blocks = finding.level == "error"
        say(out, "! " if blocks else "· ", finding, "bold red" if blocks else "bold")
    for question in inconclusive.values():
        say(out, "? too few episodes to tell: ", question, "yellow")
    say(out, "verdict: ", verdict, STYLES[verdict])


def as_json(probe: Probe) -> dict[str, Any]:
    """Everything, with the names of the code."""
    verdict, findings, inconclusive = advise(probe)
    gain = expected(probe)
    return {
        "verdict": verdict,
        "findings": [asdict(finding) for finding in findings],
        "inconclusive": inconclusive,
        "run": asdict(probe.run),
        "feedback": asdict(probe.setting),
        "measured": asdict(probe.measured),
        "expected": gain and asdict(gain),
    }
