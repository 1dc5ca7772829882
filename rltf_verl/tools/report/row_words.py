"""An episode in words: the names of its attempts, why they ended, the calls of a trajectory, and
what its rows train (in the format of `runlog.rows`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rltf_verl.runlog.turns import Record
from rltf_verl.types import Role

TRAINS = {
    "attempt": "reinforcement of the answer, as it was played",
    "distill": "the last answer, as if it had been given to the first prompt",
    "critique": "reinforcement of the policy's own critique",
    "feedback_modeling": "prediction of the feedback",
    "imitate": "supervised: a right answer to the first prompt",
}
"""Role -> what its tokens are for."""
ROLES = tuple(role.name.lower() for role in Role)
ENDS = {
    "solved": "solved",
    "horizon": "its last turn",
    "not_asked": "no feedback is asked for",
    "feedback_unavailable": "no feedback",
    "prompt_too_long": "the next prompt does not fit data.max_prompt_length",
    "ungraded": "no grade",
    "done": "the environment ended it",
    "answered": "an answer without a call",
    "steps": "the limit of steps",
    "length": "an answer was cut off at the token limit",
    "context": "an observation left no room for another answer",
    "deadline": "a call took too long",
    "invalid": "too many invalid actions in a row",
    "environment_error": "the environment failed",
}
"""Why an episode ends at a turn (`stop`), and why a trajectory ended (`end`)."""


def said(step: Record) -> str:
    """Words of a step's answer apart from its calls; all of it if not all of them were played."""
    call = r"(?s)<tool_call>.*?</tool_call>"  # as most models write it
    # a call that the parser missed stays in the text: a reader should see it
    rest, num = re.subn(call, "", step["text"])
    return rest.strip() if num == len(step["actions"]) else str(step["text"])


def call_in_words(action: Mapping[str, Any]) -> str:
    """
    >>> call_in_words({"tool": "book", "arguments": {"day": "Monday", "hours": 2}})
    'book(day="Monday", hours=2)'
    """
    given = (f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in action["arguments"].items())
    return f"{action['tool']}({', '.join(given)})"


def rows_in_words(
    rows: Sequence[Mapping[str, Any]], turns: Sequence[Record]
) -> list[dict[str, Any]]:
    """The rows without their tokens: `title` (prompt → answers) and `parts`, each with `what` it is
    the text of.
    """
    worded = []
    for row in rows:
        parts = [{**part, "what": _what(part, turns)} for part in row["parts"]]
        worded.append({"title": title(row, turns), "parts": parts})
    return worded


def title(row: Mapping[str, Any], turns: Sequence[Record]) -> str:
    """A row's prompt and its texts.

    >>> part = {"role": "attempt", "turn": 0}
    >>> title({"parts": [part]}, [{}])
    'first prompt → attempt 1'
    """
    if not row["parts"]:
        return "nothing but context"
    answers = dict.fromkeys(_what(part, turns) for part in row["parts"])
    return f"{_prompt(row['parts'][0], turns)} → {' → '.join(answers)}"


def _what(part: Mapping[str, Any], turns: Sequence[Record]) -> str:
    """The text whose tokens a part has."""
    role, turn = part["role"], part["turn"]
    if role == "critique":  # credited with the turn that it led to
        return f"critique of {_name(turns, _before(turns, turn))}"
    name = _name(turns, turn)
    return f"feedback on {name}" if role == "feedback_modeling" else name


def _prompt(first: Mapping[str, Any], turns: Sequence[Record]) -> str:
    """Label before a row's first part."""
    role, before = first["role"], _before(turns, first["turn"])
    if role == "critique":
        return f"critic prompt about {_name(turns, before)}"
    if role == "feedback_modeling":
        return f"critic prompt about {_name(turns, first['turn'])}"
    if role != "attempt" or before is None:
        return "first prompt"
    return f"prompt to revise {_name(turns, before)}"


def _before(turns: Sequence[Record], turn: int) -> int | None:
    return turn - 1 if 0 < turn < len(turns) else None


def _name(turns: Sequence[Record], turn: int | None) -> str:
    """A row of an episode that was logged in part may name a turn that the log lacks."""
    if turn is None or turn >= len(turns):
        return "an attempt that is not in the log"
    return f"attempt {turn + 1}"
