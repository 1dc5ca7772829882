"""The workspace of one attempt: records to read, and the changes that calls make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rltf_verl.types import Action, Step

Fact = tuple[str, str, str]
"""A call's effect: the tool, its object, what the object got."""
Call = tuple[str, Mapping[str, str]]
"""A tool and its arguments."""

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
INBOX = "inbox"
MOST_TEXT = 60
"""Characters of an argument."""

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "read": ("name",),
    "add_note": ("ticket", "text"),
    "close_ticket": ("ticket",),
    "move_file": ("file", "folder"),
    "book": ("day", "title"),
}
_DESCRIPTIONS = {
    "read": "Read a ticket or a file.",
    "add_note": "Add a note to an open ticket.",
    "close_ticket": "Close a ticket, for good.",
    "move_file": "Move a file to a folder.",
    "book": "Put a title on a day of the calendar.",
}
TOOLS: tuple[dict[str, Any], ...] = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": _DESCRIPTIONS[name],
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string"} for parameter in parameters},
                "required": list(parameters),
            },
        },
    }
    for name, parameters in _PARAMETERS.items()
)


def fact_of(call: Call) -> Fact:
    """Effect of a call that changes something."""
    tool, arguments = call
    thing, *rest = (arguments[name].strip() for name in _PARAMETERS[tool])
    return tool, thing, rest[0].strip("/ ") if rest else ""


@dataclass
class Desk:
    """The state of one attempt."""

    records: Mapping[str, Mapping[str, str]]
    """Ticket or file -> its fields."""
    facts: set[Fact] = field(default_factory=set)
    """All that differs from the beginning."""

    def act(self, action: Action) -> Step:
        """Do a call. No observation repeats words of the policy, so that all are short."""
        tool, parameters = action.tool or "", _PARAMETERS.get(action.tool or "")
        if parameters is None:
            return Step(f"The tools are {', '.join(_PARAMETERS)}.", kind="error")
        given = action.arguments
        if set(given) != set(parameters) or not all(map(_is_short, given.values())):
            wanted = " and ".join(parameters)
            refusal = f"{tool} needs {wanted}: texts of up to {MOST_TEXT} signs."
            return Step(refusal, kind="error")
        fact = fact_of((tool, given))
        if refusal := self._refusal(tool, fact[1]):
            return Step(refusal, kind="error")
        if tool == "read":
            return Step(self._record_text(fact[1]))
        # A file is in one folder only.
        if tool == "move_file":
            self.facts -= {other for other in self.facts if other[:2] == fact[:2]}
        # All files begin in the inbox: back there, nothing is different.
        if (tool, fact[2]) != ("move_file", INBOX):
            self.facts.add(fact)
        return Step(f"Done with {fact[1]}.")

    def _refusal(self, tool: str, thing: str) -> str:
        """Why the workspace refuses a call; empty if it does not."""
        if tool == "book":
            return "" if thing in DAYS else f"The days are {', '.join(DAYS)}."
        kind = {"read": "ticket or file", "move_file": "file"}.get(tool, "ticket")
        fits = tool == "read" or (kind == "file") == thing.endswith(".txt")
        if thing not in self.records or not fits:
            return f"There is no such {kind}."
        closed = tool != "read" and _closing_fact(thing) in self.facts
        return f"{thing} is closed and cannot change." if closed else ""

    def _record_text(self, name: str) -> str:
        fields = ", ".join(f"{key} {value}" for key, value in self.records[name].items())
        return f"{name}{' (closed)' if _closing_fact(name) in self.facts else ''}: {fields}."


def _closing_fact(ticket: str) -> Fact:
    return fact_of(("close_ticket", {"ticket": ticket}))


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= MOST_TEXT
