"""recipes/agents: its office. The rule decides, feedback alone tells it, and nothing hostile moves
anything.
"""

import importlib
import json
import random
from typing import Any

import pytest

from rltf_verl.envs.base import LEVELS
from rltf_verl.registry import load
from rltf_verl.types import Action, Problem
from tests.support.acting import OFFICE, call, played

Workspace: Any = load("rltf.env.name", OFFICE)
RECORD = {"customer": "Oslo", "owner": "Ruth", "month": "2024-03", "reference": "KX482"}
RULES = {
    "close": {"kind": "close", "field": "owner", "form": "{value} settled"},
    "archive": {"kind": "archive", "field": "month", "form": "shelf/{value}"},
    "book": {"kind": "book", "field": "reference", "form": "[{value}] {given}"},
}
ORDERS: dict[str, tuple[str, list[Any]]] = {
    "close": (
        "Close ticket T1.",
        [
            ("add_note", {"ticket": "T1", "text": "Ruth settled"}),
            ("close_ticket", {"ticket": "T1"}),
        ],
    ),
    "archive": (
        "Move a.txt to archive.",
        [("move_file", {"file": "a.txt", "folder": "shelf/2024-03"})],
    ),
    "book": (
        'Book "call" on Friday for ticket T1.',
        [("book", {"day": "Friday", "title": "[KX482] call"})],
    ),
}
OTHER = {
    "text": "Move b.txt to archive.",
    "calls": [("move_file", {"file": "b.txt", "folder": "archive"})],
    "ruled": False,
}
ENV = Workspace()
orders = importlib.import_module("orders")
MOVED_B = call("move_file", file="b.txt", folder="archive")


def problem(kind: str = "close") -> Problem:
    """An order under a rule, and `OTHER`."""
    text, calls = ORDERS[kind]
    data = {
        "house": "Sato",
        "rule": RULES[kind],
        "records": dict.fromkeys(("T1", "T2", "a.txt", "b.txt"), RECORD),
        "orders": [{"text": text, "calls": calls, "ruled": True}, OTHER],
    }
    return Problem("workspace", 0, data, "the calls")


def without_the_rule(made: Problem) -> list[Action]:
    """As somebody works who follows the prompt to the letter."""
    actions = []
    for order in made.data["orders"]:
        for tool, arguments in order["calls"]:
            if not order["ruled"] or tool == "close_ticket":
                actions.append(call(tool, **arguments))
            elif tool == "move_file":
                actions.append(call(tool, file=arguments["file"], folder="archive"))
            elif tool == "book":
                title = order["text"].split('"')[1]
                actions.append(call(tool, day=arguments["day"], title=title))
    return actions


@pytest.mark.parametrize("conventions", ["house", "practice"])
def test_the_rule_decides_in_every_house(conventions: Any) -> None:
    env = Workspace(conventions, house=100, num_houses=300)
    splits = env.build(1, 300, 30)
    assert not {env.prompt(p) for p in splits.train} & {env.prompt(p) for p in splits.test}
    for made in (*splits.train, *splits.test):
        solution = env.solution(made)
        assert 2 <= len(solution) <= 6
        trajectory = played(env, made, solution)
        assert env.grade(made, trajectory).correct
        observations = [step.results[0].observation for step in trajectory.steps[:-1]]
        # 32 tokens of SmolLM2 at most; prompt and tools have 66 + 335.
        assert max(map(len, observations)) < 90
        assert len(env.prompt(made)) + len(json.dumps(env.tools)) < 1_600

        plainly = env.grade(made, played(env, made, without_the_rule(made)))
        assert not plainly.correct
        assert 0 <= (plainly.score or 0) < 1


def test_a_warm_up_practises_no_form_of_a_house() -> None:
    for kind, forms in orders.FORMS.items():
        practised = {orders.practice_form(random.Random(k), kind) for k in range(2000)}
        assert len(practised) > 50
        assert not set(forms) & practised
    assert orders.house_of(7, "house") == orders.house_of(7, "house")
    assert len({str(orders.house_of(k, "house")) for k in range(50)}) == 50


CASES = [
    # rule, calls, score, step -> what location says of it, not done
    ("close", [], 0.0, {}, "Close ticket T1. Move b.txt to archive."),
    ("close", [call("close_ticket", ticket="T1"), MOVED_B], 2 / 3, {0: "rule"}, "Close ticket T1."),
    (
        "close",
        [call("add_note", ticket="T1", text="Ruth"), call("close_ticket", ticket="T1"), MOVED_B],
        2 / 4,
        {0: "rule"},
        "Close ticket T1.",
    ),
    (
        "close",  # the right note is refused after closing
        [
            call("close_ticket", ticket="T1"),
            call("add_note", ticket="T1", text="Ruth settled"),
            MOVED_B,
        ],
        2 / 3,
        {0: "rule"},
        "Close ticket T1.",
    ),
    (
        "close",
        [call("close_ticket", ticket="T2"), MOVED_B],
        1 / 4,
        {0: "Nobody"},
        "Close ticket T1.",
    ),
    (
        "archive",
        [call("move_file", file="a.txt", folder="archive"), MOVED_B],
        1 / 3,
        {0: "rule"},
        "Move a.txt to archive.",
    ),
    (
        "archive",  # the wrong folder is put right: what is left to say is about b.txt
        [
            call("move_file", file="a.txt", folder="archive"),
            call("move_file", file="a.txt", folder="/shelf/2024-03/"),
            call("move_file", file="b.txt", folder="old"),
        ],
        1 / 3,
        {2: "Nobody"},
        "Move b.txt to archive.",
    ),
    (
        "book",
        [MOVED_B, call("book", day="Friday", title="call")],
        1 / 3,
        {1: "rule"},
        'Book "call" on Friday for ticket T1.',
    ),
]


@pytest.mark.parametrize(("kind", "actions", "score", "steps", "missing"), CASES)
def test_feedback_says_where_and_why(
    kind: str, actions: list[Action], score: float, steps: dict[int, str], missing: str
) -> None:
    made = problem(kind)
    trajectory = played(ENV, made, actions)
    grade = ENV.grade(made, trajectory)
    assert not grade.correct
    assert grade.score == pytest.approx(score)
    notes = {level: ENV.explain(made, trajectory, grade, level) for level in LEVELS}
    texts = {level: "\n".join(note.text for note in notes[level]) for level in LEVELS}
    at = {note.step: note.text for note in notes["location"] if note.step is not None}
    assert at.keys() == steps.keys()
    assert all(word in at[step] for step, word in steps.items())
    assert notes["location"][-1].text == f"Not done as it should be: {missing}"

    telling = [note.step for note in notes["hint"] if ", like " in note.text]
    if "rule" in steps.values():
        assert telling == [*steps]
    else:
        assert telling == [None] * (ORDERS[kind][0] in missing)
    assert ", like " not in texts["location"]
    assert not {"Ruth settled", "shelf/2024-03", "[KX482] call"} & set(texts["hint"].split('"'))
    assert "the calls" in texts["full"]


def test_a_right_state_needs_no_certain_order_of_orders() -> None:
    made = problem("close")
    note, close, _ = ENV.solution(made)
    trajectory = played(ENV, made, [MOVED_B, note, close])
    grade = ENV.grade(made, trajectory)
    assert (grade.correct, grade.score) == (True, 1)
    (verdict,) = ENV.explain(made, trajectory, grade, "full")
    assert "the calls" not in verdict.text


@pytest.mark.parametrize(
    ("action", "observation"),
    [
        (call("rm", name="T1"), "The tools are"),
        (Action("close it"), "The tools are"),
        (call("read"), "read needs name"),
        (call("read", name="T1", more="x"), "read needs name"),
        (call("add_note", ticket="T1", text=7), "add_note needs ticket and text"),
        (call("add_note", ticket="T1", text=" "), "add_note needs"),
        (call("add_note", ticket="T1", text="x" * 1_000_000), "add_note needs"),
        (call("read", name="T9"), "There is no such ticket or file."),
        (call("move_file", file="T1", folder="archive"), "There is no such file."),
        (call("close_ticket", ticket="a.txt"), "There is no such ticket."),
        (call("book", day="Sunday", title="call"), "The days are"),
    ],
)
def test_a_refused_call_changes_nothing(action: Action, observation: str) -> None:
    state = ENV.open(problem(), 0)
    step = ENV.step(state, action)
    assert (step.kind, step.done) == ("error", False)
    assert step.observation.startswith(observation)
    assert not state.facts


def test_more_test_problems_than_there_are() -> None:
    with pytest.raises(ValueError, match=r"num_test=5000: .* lower it, or raise rltf\.env"):
        Workspace(house=2, max_orders=1).build(0, 0, 5000)


def test_problems_have_no_more_orders_than_asked() -> None:
    for most in (1, 2, 3):
        problems = Workspace(max_orders=most).build(0, 50, 0).train
        assert {len(problem.data["orders"]) for problem in problems} == set(range(1, most + 1))
