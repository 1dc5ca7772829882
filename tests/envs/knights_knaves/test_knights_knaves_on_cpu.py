"""The release's puzzles and verdicts; what strict mode promises; what must hold for any text."""

import math
import random
import subprocess
import sys
from collections import Counter
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.knights_knaves import puzzles
from rltf_verl.envs.knights_knaves.env import KnightsKnaves
from rltf_verl.envs.knights_knaves.logic import (
    contradictions,
    formula,
    holds,
    letters,
    only_solution,
    read_letters,
    same_puzzle_key,
)
from rltf_verl.envs.knights_knaves.puzzles import RolePuzzle, _reorder
from rltf_verl.envs.knights_knaves.text import read_release_roles
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.types import Problem
from tests.support.effort import examples
from tests.support.puzzles import boxed, explained

OFFICIAL, STRICT = KnightsKnaves(mode="official"), KnightsKnaves()
COMPACT = KnightsKnaves(style="compact", n_people=3, depth=2, width=2)
ENVS = [OFFICIAL, STRICT, COMPACT]
PROBLEMS = {id(env): env.build(1, 100, 0).train for env in ENVS}

NAMES = ["Emma", "Noah", "Mia"]
SAID = [
    ["<=>", ["lying", 1], ["telling-truth", 2]],
    ["lying", 0],
    ["and", ["telling-truth", 0], ["not", ["telling-truth", 1]]],
]
TEXT = "Emma is an angel, Noah is a devil, and Mia is an angel."
PROBLEM = Problem(
    "knights_knaves",
    0,
    {
        "names": NAMES,
        "roles": ["an angel", "a devil"],
        "statements": SAID,
        "solution": [True, False, True],
        "solution_text": TEXT,
        "quiz": "",
    },
    TEXT,
)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("Emma is a knight, Noah is a knave", {("emma", "knight"), ("noah", "knave")}),
        ("Emma: knight", {("emma:", "knight")}),
        ("\\text{Emma is a sage}", set()),
        ("knight knave", set()),
        ("Emma Noah is a sage knave", {("noah", "sage")}),
        ("(Emma) and Mia hero", {("mia", "hero")}),
    ],
)
def test_official_reading(text: str, pairs: set[tuple[str, str]]) -> None:
    assert read_release_roles(text) == pairs


@pytest.mark.parametrize(
    "text",
    [
        "Emma is an angel, Noah is a devil, and Mia is an angel.",
        "Mia is an angel, Emma is an angel, Noah is a devil",
        "\\text{Emma is an angel, Noah is a devil, and Mia is an angel}",
        "\\text{Emma is an angel}, \\text{Noah is a devil}, \\textbf{Mia} \\text{ is an angel}",
        "Emma: angel, Noah: devil, Mia: angel",
        "Emma = angel; Noah = devil; Mia = angel",
        "emma angel, noah devil, mia angel",
        '{"Emma": "angel", "Noah": "devil", "Mia": "angel"}',
        "['Emma is an angel', 'Noah is a devil', 'Mia is an angel']",
        (
            '[{"name": "Emma", "role": "angel"}, {"name": "Noah", "role": "devil"}, {"name": "Mia",'
            ' "role": "angel"}]'
        ),
        "- Emma: angel\n- Noah: devil\n- Mia: angel",
        "1. Emma is an angel\n2. Noah is a devil\n3. Mia is an angel",
        "Emma and Mia are angels, Noah is a devil",
        "Angels: Emma, Mia; Devils: Noah",
        "The angels are Emma and Mia. Noah is a devil.",
        "The only devil is Noah. Emma and Mia are angels.",
        "angels:\n* Emma\n* Mia\ndevils:\n* Noah",
        "Emma → Angel, Noah → Devil, Mia → Angel",
        "| Name | Role |\n|---|---|\n| Emma | angel |\n| Noah | devil |\n| Mia | angel |",
        '{"angels": ["Emma", "Mia"], "devils": ["Noah"]}',
        (
            "\\begin{aligned} \\text{Emma} &: \\text{angel} \\\\ Noah &: \\text{devil} \\\\ Mia &:"
            " angel \\end{aligned}"
        ),
    ],
)
def test_strict_accepts_what_a_human_would(text: str) -> None:
    thinking = "Noah lies. Suppose not: Mia is a devil."
    for answer in (boxed(text), f"}} {thinking}\n\n$${boxed(text)}$$ }}", f"{thinking}\n\n{text}"):
        grade = STRICT.grade(PROBLEM, answer)
        assert (grade.correct, grade.format_ok) == (True, True)


@pytest.mark.parametrize(
    ("text", "format_ok"),
    [
        ("Emma is an angel, Noah is a devil", True),
        ("Emma is an angel, Noah is a devil, Mia is a devil", True),
        ("Emma is a knight, Noah is a knave, Mia is a knight", True),
        ("Emma is an angel, Noah is a knave, Mia is an angel", True),
        ("Emma is an angel, Noah is a devil, Mia is an angel, Zoe is a devil", False),
        ("Emma is an angel, Noah is a devil, Mia is an angel, Emma is a devil", False),
        ("Emma is an angel/devil, Noah is an angel/devil, Mia is an angel/devil", False),
        ("Emma is an angel or a devil, Noah is a devil, Mia is an angel", False),
        ("Emma is an angel, Noah is not a devil, Mia is an angel", False),
        ("Emma is an angel, Noah is no devil, Mia is an angel", False),
        ("Emma, Noah, Mia", False),
        ("angel, devil, angel", False),
        ("Angels: Emma, Mia; devils:", False),
        ("Emma is an angel, and so is Noah. Mia is an angel.", False),
        ("Noah is a devil, as is Emma; Mia is an angel.", False),
        ("", False),
    ],
)
def test_strict_refuses(text: str, format_ok: bool) -> None:
    grade = STRICT.grade(PROBLEM, boxed(text))
    assert (grade.correct, grade.format_ok) == (False, format_ok)


def test_explanations_of_each_level() -> None:
    wrong = "Your previous answer is incorrect."
    hint = f"{wrong} With your roles, what Emma said is false, but you call Emma an angel."
    assert explained(
        STRICT, PROBLEM, boxed("Emma is an angel, Noah is a devil, Mia is a devil")
    ) == [
        wrong,
        f"{wrong} What Emma said does not fit your roles.",
        hint,
        f"{hint} The solution is: {TEXT}",
    ]


@pytest.mark.parametrize(
    ("env", "text", "said"),
    [
        (STRICT, boxed("Emma is an angel, Noah is an angel, Mia is a devil"), "what Noah said"),
        (STRICT, boxed("Emma is a sage"), "angel and devil"),
        (STRICT, boxed("Emma is an angel"), "Noah, Mia"),
        (STRICT, "?", "No boxed answer"),
        (OFFICIAL, boxed("Emma: angel, Noah: devil, Mia: angel"), "Every role is right, but"),
    ],
)
def test_what_an_explanation_is_about(env: KnightsKnaves, text: str, said: str) -> None:
    assert said in explained(env, PROBLEM, text)[2]


def test_formulas() -> None:
    assert [formula(said) for said in SAID] == ["b=C", "a", "A&b"]
    assert formula(["not", ["or", ["lying", 0], ["not", SAID[2]]]]) == "!(a|(!(A&b)))"
    assert COMPACT.prompt(COMPACT.build(0, 1, 0).train[0]).count("\n") == 2


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        (boxed("ABC"), ["xxx", "<<<", "AbC"]),
        ("aBC", ["==x", "==<", "AbC"]),
        ("Abc", ["x=x", "<=>", "AbC"]),
        ("AB", ["?", "?", "AbC"]),
        ("C A b", ["=", "=", "="]),
    ],
)
def test_compact_marks(text: str, marks: list[str]) -> None:
    assert explained(COMPACT, PROBLEM, text)[1:] == marks


def test_grading_and_the_compact_form_need_no_other_package() -> None:
    grades = (
        "import sys; from rltf_verl.envs import make_env; from rltf_verl.types import Problem\np ="
        f" Problem('knights_knaves', 0, {dict(PROBLEM.data)!r}, {TEXT!r})\nfor mode in ('official',"
        " 'strict'):\n    assert make_env('knights_knaves', mode=mode).grade(p, '\\\\boxed{' +"
        " p.reference + '}').correct\nprint({'reasoning_gym', 'numpy'} & set(sys.modules))\n"
    )
    compact = (
        "sys.modules['reasoning_gym'] = sys.modules['numpy'] = None\nfor env in"
        " ('knights_knaves', 'shortest_path'):\n    e = make_env(env, style='compact'); p ="
        " e.build(0, 1, 1).train[0]\n    assert e.grade(p, p.reference).correct and e.explain(p,"
        " 'x', e.grade(p, 'x'), 'hint')\ntry: make_env('knights_knaves').build(0, 1, 0)\nexcept"
        " ValueError as error: print(error)\n"
    )
    done = subprocess.check_output([sys.executable, "-c", grades + compact], text=True)
    imported, told = done.splitlines()
    assert imported == "set()"
    assert "pip install rltf-verl[data]" in told


@pytest.mark.parametrize("env", ENVS)
def test_only_the_solution_is_correct(env: KnightsKnaves) -> None:
    for problem in PROBLEMS[id(env)][:20]:
        for roles in product((True, False), repeat=len(problem.data["names"])):
            pairs = zip(problem.data["names"], roles, strict=True)
            words = ", ".join(
                f"{name} is {problem.data['roles'][0 if role else 1]}" for name, role in pairs
            )
            grade = env.grade(problem, boxed(letters(roles) if env is COMPACT else words))
            assert grade.correct == (list(roles) == problem.data["solution"])
            assert bool(contradictions(problem.data["statements"], roles)) != grade.correct


def test_no_choice_of_roles_solves_more_strict_puzzles_than_another() -> None:
    num, chance = 4000, 1 / 8
    count = Counter(problem.reference for problem in COMPACT.build(0, num, 0).train)
    margin = 4 * math.sqrt(num * chance * (1 - chance))
    assert len(count) == 8
    assert all(abs(n - num * chance) < margin for n in count.values()), count


def test_strict_says_what_to_change_when_there_are_too_few_puzzles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(puzzles, "MAX_DRAWS", 2_000)
    with pytest.raises(ValueError, match=r"rltf\.env\.n_people=2, rltf\.env\.depth=2 "):
        KnightsKnaves(style="compact", n_people=2, depth=2, width=2).build(0, 0, 500)


@given(seed=st.integers(0, 2**32), roles=st.lists(st.booleans(), min_size=3, max_size=3))
def test_people_in_another_order_are_the_same_puzzle(seed: int, roles: list[bool]) -> None:
    rng = random.Random(seed)
    found = PROBLEMS[id(COMPACT)][seed % 100].data
    if sum(roles) != sum(found["solution"]):
        return
    puzzle = RolePuzzle(tuple(found["statements"]), tuple(found["solution"]))
    moved = _reorder(rng, puzzle, roles)
    assert only_solution(moved.statements) == tuple(roles)
    assert same_puzzle_key(moved.statements) == same_puzzle_key(puzzle.statements)


def test_the_order_of_a_conjunction_makes_no_other_puzzle_and_that_of_an_implication_does() -> None:
    first, second = ("lying", 1), ("telling-truth", 0)
    for kind, same in (("and", True), ("or", True), ("<=>", True), ("->", False)):
        keys = {
            same_puzzle_key([(kind, *parts), second]) for parts in permutations((first, second))
        }
        assert (len(keys) == 1) == same
    assert same_puzzle_key([("not", first), second]) == same_puzzle_key(
        [("telling-truth", 1), second]
    )


@given(st.lists(st.booleans(), min_size=2, max_size=10), st.randoms())
def test_letters_come_back_in_any_order(roles: list[bool], rng: random.Random) -> None:
    shuffled = list(letters(roles))
    rng.shuffle(shuffled)
    assert read_letters(" ".join(shuffled), len(roles)) == roles
    assert read_letters(letters(roles) + "A", len(roles)) is None


def test_truth_tables() -> None:
    a, b = ("telling-truth", 0), ("telling-truth", 1)
    table = {"and": [1, 0, 0, 0], "or": [1, 1, 1, 0], "->": [1, 0, 1, 1], "<=>": [1, 0, 0, 1]}
    for kind, values in table.items():
        assert [holds((kind, a, b), roles) for roles in product((True, False), repeat=2)] == values
    assert holds(("not", ("lying", 0)), [True]) is True


@st.composite
def answers(draw: st.DrawFn) -> tuple[KnightsKnaves, Problem, str]:
    """Roles for some of the people, right or not."""
    env = draw(st.sampled_from(ENVS))
    problem = PROBLEMS[id(env)][draw(st.integers(0, 99))]
    roles = [draw(st.booleans()) for _ in problem.data["names"]]
    if env is COMPACT:
        return env, problem, boxed(letters(roles)[draw(st.integers(0, 1)) :])
    named = [
        f"{name} is {problem.data['roles'][0 if role else 1]}"
        for name, role in zip(problem.data["names"], roles, strict=True)
        if draw(st.integers(0, 9))
    ]
    return env, problem, boxed(", ".join(named))


@given(answers(), st.sampled_from(LEVELS))
@examples(300)
def test_explanations_of_wrong_roles(case: tuple[KnightsKnaves, Problem, str], level: str) -> None:
    env, problem, text = case
    grade = env.grade(problem, text)
    if level != "full" and not grade.correct:
        assert find_leaks(env, problem, env.explain(problem, text, grade, level), text) == []
    if not grade.correct:
        full = env.explain(problem, text, grade, "full").rpartition("The solution is: ")[2]
        assert env.grade(problem, boxed(full)).correct
