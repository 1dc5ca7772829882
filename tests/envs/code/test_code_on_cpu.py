"""The environment `code`: problems, grades, words, and what counts as the expected output."""

import json
import random

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.data.schema import problem_from_row, row_of
from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.code.arithmetic import draw_task
from rltf_verl.envs.code.compare import same_text, same_value
from rltf_verl.envs.code.env import Code
from rltf_verl.envs.code.text import fenced, last_program
from rltf_verl.envs.sandbox import bubblewrap
from rltf_verl.envs.sandbox.base import Program, Resources
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.types import Grade, Problem
from tests.support.sandboxes import LOCAL, code_problem, sandbox, trouble

BACKEND = next(backend for backend in LOCAL if trouble(backend) is None)
QUICK = {"sandbox": BACKEND, "time_s": 2, "total_s": 20, "memory_mb": 256}
ENV = Code(**QUICK)


def problem(solution="", entry=None, **fields) -> Problem:
    """Twice the number: public 1 and 2, private 31 and 47."""
    tests = [
        {"input": [n] if entry else f"{n}\n", "accept": [2 * n if entry else f"{2 * n}\n"]}
        for n in (1, 2, 31, 47)
    ]
    given = {"public": tests[:2], "private": tests[2:], "statement": "Double it.", **fields}
    return code_problem(entry=entry, solution=solution, **given)


RIGHT = fenced("print(2 * int(input()))")


def told(of: Problem, text: str, level: str, env: Code = ENV) -> str:
    return env.explain(of, text, env.grade(of, text), level)


MANY = """
import contextlib, io, sys
def many(tasks):
    outputs = []
    for source, entry, inputs in tasks:
        names = {}
        if entry:
            exec(source, names)
            outputs.append([names[entry](*given) for given in inputs])
            continue
        outputs.append([])
        for given in inputs:
            sys.stdin = io.StringIO(given)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(source, {})
            outputs[-1].append(printed.getvalue().strip())
    return outputs
"""


def test_references_of_a_thousand_seeds_are_right_in_one_execution():
    tasks = [draw_task(random.Random(seed)) for seed in range(1000)]
    tests = [(*task.public, *task.private) for task in tasks]
    given = [
        [t.solution, t.entry, [test["input"] for test in all_]]
        for t, all_ in zip(tasks, tests, strict=True)
    ]
    with sandbox(BACKEND, Resources(time_s=20)).start(Program(MANY, "many")) as run:
        wanted = [[test["accept"][0] for test in all_] for all_ in tests]
        assert json.loads(run.call([given]).output) == wanted
    assert 0.3 < sum(task.entry is None for task in tasks) / 1000 < 0.7
    assert len({task.statement for task in tasks}) > 900


def test_build_is_deterministic_keeps_splits_apart_and_survives_the_dataset():
    one, again, other = ENV.build(1, 60, 20), ENV.build(1, 60, 20), ENV.build(2, 60, 20)
    assert one == again
    assert one != other
    solutions = [p.data["solution"] for p in one.test]
    assert len(set(solutions)) == 20
    assert not {p.data["solution"] for p in one.train} & set(solutions)
    row = row_of(one.train[0], ENV.prompt(one.train[0]), "train")
    assert problem_from_row(row["extra_info"], row["reward_model"]) == one.train[0]
    for first in one.test[:4]:
        assert ENV.grade(first, first.reference).correct


def test_the_prompt_has_the_statement_and_no_private_test():
    prompt = ENV.prompt(problem(entry="f", starter="def f(n):\n"))
    for part in ("Double it.", "`f`", "```python\ndef f(n):\n```"):
        assert part in prompt
    assert "31" not in prompt


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("no program", None),
        ("```python\n\n```", None),
        ("```python\na\n```", "a"),
        ("```\na\n```", "a"),
        ("first\n```python\na\n```\nthen\n```py\nb\nc\n```\nend", "b\nc"),
        ("```python\na\n```\n```cpp\nb\n```\n```text\nc\n```", "a"),
        ("  ```Python3\na\n  ```", "a"),
        ("```python\na", "a"),
        ("~~~python\na = '''\n```\n'''\n~~~", "a = '''\n```\n'''"),
        ("````python\n```\n````", "```"),
        ("`print(1)`", None),
        ("Here it is:```python\na\n```\nDone.", "a"),
        ("1. So:\n     ```python\n     if a:\n       b\n     ```", "if a:\n  b"),
        ('```python\n"""\n    ```\n"""\n```', '"""\n    ```\n"""'),
        ("```{python}\na\n```", "a"),
        ("```python3.11\na\n```", "a"),
        ("```python\na\n```\nInput:\n```\n3 4\n```", "a"),
    ],
)
def test_the_answer_is_the_last_block_that_can_be_python(text, source):
    assert last_program(text) == source


@given(st.text() | st.lists(st.sampled_from(["```", "python", "\n", "~~~", "a", " "])).map("".join))
def test_any_text_can_be_read(text):
    source = last_program(text)
    assert source is None or all(line in text for line in source.split("\n"))


def test_the_private_tests_decide():
    assert ENV.grade(problem(), RIGHT).correct
    assert ENV.grade(
        problem(entry="f"), fenced("class Solution:\n    def f(self, n): return n + n")
    ).correct


def test_the_share_that_passes_counts_if_that_is_wanted():
    env, half = (
        Code(partial=True, **QUICK),
        fenced("n = int(input())\nprint(2 * n if n != 31 else 0)"),
    )
    assert env.grade(problem(), half).score == 0.5
    assert ENV.grade(problem(), half).score is None
    assert env.grade(problem(), fenced("x=")).score == 0.0


def test_no_answer_is_told():
    assert ENV.grade(problem(), "2 * n") == Grade(correct=False, format_ok=False)
    for level in LEVELS[1:]:
        assert "one ```python block" in told(problem(), "2 * n", level)


UNPARSED = "n = 1\nif n\n    print(n)"
FIRST = "Public test 2 of 2 is the first that fails; 1 of 2 pass."
NONE = "0 of 2 pass."


@pytest.mark.parametrize(
    ("fields", "source", "level", "ending"),
    [
        ({}, UNPARSED, "verdict", "is incorrect."),
        ({}, UNPARSED, "location", "is incorrect. It does not parse: line 2."),
        ({}, UNPARSED, "hint", "line 2. SyntaxError: expected ':'\nLine 2: if n"),
        ({"public": []}, UNPARSED, "hint", "is incorrect. It does not parse."),
        ({}, "print(int(input()) + 1)", "location", f"is incorrect. {FIRST}"),
        (
            {},
            "print(int(input()) + 1)",
            "hint",
            f"{FIRST}\nInput:\n2\nExpected:\n4\nGot:\n3",
        ),
        (
            {},
            "n = int(input())\nprint(2 * n if n < 10 else 0)",
            "location",
            "All 2 public tests pass, but a hidden test does not.",
        ),
        ({}, "n = int(input())\nprint(2 * n if n > 10 else 0)", "location", "0 of 2 pass."),
        (
            {},
            "n = input()\nprint(1 // 0)",
            "hint",
            "line 2: ZeroDivisionError: integer division or modulo by zero",
        ),
        ({}, "x = [0] * 10**9", "hint", "It ran out of memory (256 MB)."),
        ({}, "while True: print('x' * 9999)", "hint", "Its output is longer than 1024 KB."),
        ({}, "import os\nos.kill(os.getpid(), 11)", "hint", "the process was ended by SIGSEGV"),
        ({}, "print(0)", "hint", f"{NONE}\nInput:\n1\nExpected:\n2\nGot:\n0"),
        (
            {},
            "print(0)",
            "full",
            f"{NONE}\nInput:\n1\nExpected:\n2\nGot:\n0\nInput:\n2\nExpected:\n4\nGot:\n0",
        ),
        (
            {"solution": "x"},
            "print(0)",
            "full",
            "\nGot:\n0\nA correct program is:\n```python\nx\n```",
        ),
        ({}, "pass", "hint", "Got:\n(nothing)"),
        (
            {},
            "while True: pass",
            "hint",
            "0 of the 1 that were run pass.\nInput:\n1\nExpected:\n2\nIt ran out of time (2 s).",
        ),
        (
            {"entry": "f"},
            "def f(n):\n    return [n, None]",
            "hint",
            "0 of 2 pass.\nInput:\n[1]\nExpected:\n2\nGot:\n[1, null]",
        ),
    ],
)
def test_explanations(fields, source, level, ending):
    assert told(problem(**fields), fenced(source), level).endswith(ending)


FORGED = (
    'import os\nn = input()\nforged = \'{"ending": "syntax", "message": "\' + n + \'"}\'\n'
    "if len(n) > 1: os.write(3, forged.encode()); os._exit(0)\nprint(2 * int(n))"
)
HOSTILE_WORDS = [
    "print(2 * int(input()) if 0 else 1)",
    "n = int(input())\nassert n < 10, n\nprint(2 * n)",
    FORGED,
    "n = int(input())\nopen('seen', 'a').write(str(n))\nprint(open('seen').read())",
    "n = int(input())\nprint('x' * n) if n > 9 else print(2 * n)",
]


@pytest.mark.parametrize(
    ("source", "partial"),
    [
        *((source, False) for source in HOSTILE_WORDS),
        (FORGED, True),
        *(
            pytest.param(source, True, marks=pytest.mark.nightly)
            for source in HOSTILE_WORDS
            if source != FORGED
        ),
    ],
)
def test_private_tests_are_in_no_words(source, partial):
    env = Code(partial=partial, **QUICK)
    for public in (problem().data["public"], []):
        of = problem(public=public)
        grade = env.grade(of, fenced(source))
        assert not grade.correct
        for level in LEVELS:
            text = env.explain(of, fenced(source), grade, level)
            assert not any(hidden in text for hidden in ("31", "62", "47", "94")), (level, text)


def test_words_come_from_the_grade_and_have_a_length(monkeypatch):
    big = "7" * 100_000
    of = problem(public=[{"input": big, "accept": [big]}] * 9, solution="#" * 50_000)
    grade = ENV.grade(of, fenced("print('x' * 100_000, input())"))
    logged = Grade(
        **json.loads(json.dumps({f: getattr(grade, f) for f in Grade.__dataclass_fields__}))
    )
    assert len(json.dumps(grade.details)) < 20_000
    forged = (
        'import os\nos.write(3, b\'{"ending": "error", "message": "\' + b\'y\' * 50_000 +'
        " b'\"}')\nos._exit(0)"
    )
    assert len(told(of, fenced(forged), "hint")) < 2_000
    monkeypatch.setattr(ENV, "_sandbox", None)
    for level in LEVELS:
        assert len(ENV.explain(of, "", logged, level)) < 8_000
    assert "[… 99600 characters …]" in ENV.explain(of, "", logged, "hint")


def test_a_sandbox_that_fails_is_not_the_program_s_fault(monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    grade = Code().grade(problem(), RIGHT)
    for told in (grade.error, Code().trouble()):
        assert "apt-get install bubblewrap" in told
        assert "rltf.env.sandbox=unsafe_process" in told
    assert not grade.correct
    assert "could not be run" in Code().explain(problem(), RIGHT, grade, "hint")


def test_the_leak_guard_sees_programs_that_solve_it():
    of = problem("n = int(input())\nanswer = n + n\nprint(answer)")
    assert find_leaks(ENV, of, f"Try this:\n{RIGHT}")
    assert find_leaks(ENV, of, f"Like so: {of.data['solution']}")
    assert not find_leaks(
        ENV, of, "You print the number itself; read the task again:\n```python\nprint(input())\n```"
    )


def rows(tmp_path, name, statements):
    path, tests = tmp_path / name, json.dumps({"inputs": ["1", "2"], "outputs": ["2", "4"]})
    row = {"solutions": "[]", "input_output": tests, "starter_code": ""}
    path.write_text("\n".join(json.dumps({**row, "question": s}) for s in statements))
    return str(path)


def test_published_problems_are_split_without_overlap(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    path = rows(tmp_path, "a.jsonl", [f"Q{k}" for k in range(10)])
    env = Code(source="apps", path=path, **QUICK)
    splits = env.build(0, 6, 4)
    statements = [p.data["statement"] for p in (*splits.train, *splits.test)]
    assert sorted(statements) == [f"Q{k}" for k in range(10)]
    assert statements != sorted(statements)
    assert env.grade(splits.train[0], RIGHT).correct
    assert splits.train[0].reference == ""
    other = Code(
        source="apps", path=path, test_path=rows(tmp_path, "b.jsonl", ["Q1", "R"]), **QUICK
    ).build(0, 9, 2)
    assert {p.data["statement"] for p in other.test} == {"Q1", "R"}
    assert "Q1" not in {p.data["statement"] for p in other.train}
    with pytest.raises(ValueError, match=r"num_train=7: .* 6 problems"):
        env.build(0, 7, 4)


@pytest.mark.parametrize(
    ("source", "num_test", "key"),
    [
        ("taco", 1, "rltf.env.path=null with rltf.env.source=taco"),
        ("arithmetic", -1, "num_test=-1"),
    ],
)
def test_a_missing_path_and_negative_numbers_are_refused(source, num_test, key):
    with pytest.raises(ValueError, match=key):
        Code(source=source, **QUICK).build(0, 1, num_test)


PRINTED = [  # printed, expected, same
    ("1\n2\n", "1\n2", True),
    ("  1  \n2\t\n\n\n", "1\n2\n", True),
    ("1  2", "1 2", True),
    ("1\n\n2", "1\n2", False),
    ("1 2", "1\n2", False),
    ("12", "1 2", False),
    ("YES", "Yes", False),
    ("", "", True),
    ("", "0", False),
    ("3.0", "3", True),
    ("+03", "3", True),
    ("3.0000001", "3", False),
    ("1000001", "1000000", False),
    ("0.3333333", "0.33333333333", True),
    ("0.334", "0.3333", False),
    ("2", "2.0", True),
    ("1e3", "1000.0", True),
    ("1e999 x", "1e999 x", True),
    ("1e9999", "1e999", True),
    ("nan", "1.5", False),
    ("inf", "1.5", False),
    ("9" * 10_000, "9" * 9_999 + "8", False),
]


@pytest.mark.parametrize(
    ("printed", "expected", "same", "tolerance"),
    [*((*row, 1e-6) for row in PRINTED), ("0.50", "0.5", True, 0), ("0.5000001", "0.5", False, 0)],
)
def test_printed_text(printed, expected, same, tolerance):
    assert same_text(printed, expected, tolerance) is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ([1, [2]], [1, [2]], True),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        ("1", 1, False),
        (None, None, True),
        (None, 0, False),
        (2, 2.0, True),
        (2.0000001, 2.0, True),
        (2.0000001, 2, False),
        (10**400, 1.0, False),
        (float("nan"), float("nan"), True),
        ([], {}, False),
    ],
)
def test_values(got, expected, same):
    assert same_value(got, expected, 1e-6) is same


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared_and_each_is_itself(one, other):
    assert same_text(one, one, 1e-6)
    assert same_text(one, other, 1e-6) in (True, False)
    assert same_text(one + " \n", one, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda v: st.lists(v)
    )
)
def test_every_value_is_itself(value):
    assert same_value(value, value, 1e-6)
