"""The workspace of one attempt: records to read, and the changes that calls make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltf_verl.types import Action, Step

Fact = tuple[str, str, str]
"""What a call leaves behind: the tool, its object, what the object got."""
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


class RefusedError(Exception):
    """The workspace refuses a call; the sentence is the observation."""


def fact_of(call: Call) -> Fact:
    """What a call that changes something leaves behind."""
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
        try:
            parameters = _PARAMETERS.get(action.tool or "")
            if parameters is None:
                raise RefusedError(f"The tools are {', '.join(_PARAMETERS)}.")
            given = action.arguments
            if set(given) != set(parameters) or not all(map(_is_short, given.values())):
                wanted = " and ".join(parameters)
                raise RefusedError(
                    f"{action.tool} needs {wanted}: texts of up to {MOST_TEXT} signs."
                )
            return Step(_TOOLS[str(action.tool)](self, fact_of((str(action.tool), given))))
        except RefusedError as error:
            return Step(str(error), kind="error")

    def _read(self, fact: Fact) -> str:
        name = fact[1]
        fields = ", ".join(f"{key} {value}" for key, value in self._record("", name).items())
        state = " (closed)" if ("close_ticket", name, "") in self.facts else ""
        return f"{name}{state}: {fields}."

    def _add_note(self, fact: Fact) -> str:
        self._require_open(fact[1])
        self.facts.add(fact)
        return f"The note is in {fact[1]}."

    def _close_ticket(self, fact: Fact) -> str:
        self._require_open(fact[1])
        self.facts.add(fact)
        return f"{fact[1]} is closed."

    def _move_file(self, fact: Fact) -> str:
        self._record("file", fact[1])
        self.facts -= {other for other in self.facts if other[:2] == fact[:2]}
        if fact[2] != INBOX:
            self.facts.add(fact)
        return f"{fact[1]} is moved."

    def _book(self, fact: Fact) -> str:
        if fact[1] not in DAYS:
            raise RefusedError(f"The days are {', '.join(DAYS)}.")
        self.facts.add(fact)
        return f"{fact[1]} is booked."

    def _require_open(self, ticket: str) -> None:
        self._record("ticket", ticket)
        if ("close_ticket", ticket, "") in self.facts:
            raise RefusedError(f"{ticket} is closed and cannot change.")

    def _record(self, kind: str, name: str) -> Mapping[str, str]:
        """The fields; `kind` is `ticket`, `file` or empty for both."""
        if name not in self.records or (kind and (kind == "file") != name.endswith(".txt")):
            raise RefusedError(f"There is no such {kind or 'ticket or file'}.")
        return self.records[name]


_TOOLS: Mapping[str, Callable[[Desk, Fact], str]] = {
    "read": Desk._read,
    "add_note": Desk._add_note,
    "close_ticket": Desk._close_ticket,
    "move_file": Desk._move_file,
    "book": Desk._book,
}


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= MOST_TEXT
