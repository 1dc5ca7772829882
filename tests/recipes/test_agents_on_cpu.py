"""recipes/agents: its dialogues follow their own rule and tell no house's, its methods pass the
checks, its template shows tools.
"""

import importlib
import json
import re
from typing import Any

import jinja2
import pytest

from rltf_verl.registry import load
from tests.recipes.composing import RECIPES, program, rltf_of
from tests.support.acting import OFFICE

FOLDER = RECIPES / "agents"
SCRIPT = FOLDER / "agents.sh"
Workspace: Any = load("rltf.env.name", OFFICE)  # makes the files next to it importable
orders = importlib.import_module("orders")


def test_dialogues_end_in_the_right_state_and_some_read_feedback() -> None:
    dialogues = program("agents/dialogues.py")
    num, env = 60, Workspace(conventions="practice", house=0, num_houses=180)
    rows = list(dialogues.dialogues(num, 0))
    problems = env.build(0, 3 * num, 0).train[:num]
    for row, problem in zip(rows, problems, strict=True):
        *calls, end = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        called = [json.loads(re.sub("</?tool_call>", "", call)) for call in calls]
        assert called == [
            {"name": a.tool, "arguments": dict(a.arguments)} for a in env.solution(problem)
        ]
        assert (end, row["messages"][-1]["content"]) == (dialogues.DONE, dialogues.DONE)
    first = [row["messages"][0]["content"] for row in rows]
    assert 15 < sum("Your earlier answer:" in text for text in first) < 45
    assert sum(row["messages"][3]["role"] == "user" for row in rows if len(row["messages"]) > 3) > 2


def test_no_dialogue_has_a_form_of_a_house() -> None:
    text = json.dumps(list(program("agents/dialogues.py").dialogues(300, 1)))
    for form in {form for forms in orders.FORMS.values() for form in forms}:
        for value in (*orders.CUSTOMERS, *orders.OWNERS):
            assert form.format(value=value, given="archive") not in text


@pytest.mark.parametrize("method", ["grpo", "sd", "fork", "by_step"])
def test_a_method_is_what_the_script_says(method: str, start: Any, tmp_path: Any) -> None:
    (line,), _ = start(SCRIPT, "train", method, "a=b", OUT=str(tmp_path), HOUSE="3", SEED="2")
    assert line.endswith(" a=b")
    assert f"rltf.env.name={OFFICE} rltf.env.house=3" in line
    assert f"data.train_files={tmp_path}/data_3/train.parquet" in line
    words = [w for w in line.split() if w.startswith(("rltf/", "rltf."))]
    rltf = rltf_of("agents", *words)
    assert (rltf.seed, rltf.env.options["house"]) == (2, 3)
    assert rltf.episode.retry == ("fork" if method == "fork" else "whole")
    assert rltf.teacher.notes == ("by_step" if method == "by_step" else "joined")
    assert bool(rltf.distill.enabled) == (method in ("sd", "fork"))


def test_the_template_shows_tools_and_a_message_alone_as_in_the_conversation() -> None:
    """verl's SFT dataset renders each message by itself."""
    template = jinja2.Template((FOLDER / "chat_template.jinja").read_text("utf-8"))
    (row,) = program("agents/dialogues.py").dialogues(1, 0)
    messages, tools = row["messages"], row["tools"]
    whole = template.render(messages=messages, tools=tools)
    alone = [template.render(messages=[m]) for m in messages[1:]]
    assert whole == template.render(messages=messages[:1], tools=tools) + "".join(alone)
    assert "add_note(ticket, text): Add a note to an open ticket." in whole
    asked = template.render(messages=messages[:1], tools=tools, add_generation_prompt=True)
    assert whole.startswith(asked)
