"""What every long pattern of the environments and of the guard finds: the part in ⟦ ⟧."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import rltf_verl.envs
import rltf_verl.feedback.guard
from rltf_verl.envs.knights_knaves.leaks_readings import LYING, TRUTHFUL

LONG = 60
"""Characters from which a pattern needs an example."""
A, B = "\ue000", "\ue001"  # names, which `knights_knaves.leaks` replaces as it does the roles
EXAMPLES = {
    "envs.binary_matrix.leaks": {
        "_OWN": "in ⟦your last answer⟧ the first row",
        "_QUOTES": "the ⟦input⟧ is 0 1 1",
        "_TELLS": "the row ⟦should⟧ be 0 1 2",
    },
    "envs.binary_matrix.leaks_grids": {
        "_SAME_ROW": "⟦, then ⟧1",
        "_LINE_NAME": "the ⟦2nd row⟧ is",
    },
    "envs.binary_matrix.leaks_readings": {
        "_LABEL": "⟦row 2⟧: 0 1 1",
        "_CHANGED": "one ⟦less⟧ than 3",
        "_COLUMNS": "read from ⟦top to bottom⟧",
        "_PLACE": "the cell ⟦(1, 2)⟧ is 3",
        "_VALUE_AFTER": "(1, 2) should⟦ be 3⟧",
        "_REST": "⟦all other cells are 0⟧",
    },
    "envs.code.compare": {"_NUMBER": "⟦-1.5e-3⟧"},
    "envs.knights_knaves.leaks": {
        "_LINK": f"{A} ⟦is⟧ a {TRUTHFUL}",
        "_REPORTED": f"{A} ⟦says⟧ that {B} is a {LYING}",
        "_SUPPOSED": f"⟦Suppose⟧ {A} is a {LYING}",
        "_SOME_OF": "⟦one of ⟧",
        "_TELLS": f"{A} ⟦must⟧ be a {TRUTHFUL}",
        "_EXCEPT": "⟦everyone except ⟧",
        "_NOT": f"{A} is ⟦not⟧ a {TRUTHFUL}",
        "_IMPOSSIBLE": "it is ⟦impossible that ⟧",
        "_CLAIMS[0]": f"⟦{A} and {B} are both {TRUTHFUL}⟧",
        "_CLAIMS[1]": f"⟦make {A} a {LYING}⟧",
        "_CLAIMS[2]": f"the ⟦{LYING} is {A}⟧",
        "_KNOWN": "a ⟦truth-teller⟧",
        "_LETTERED": f"⟦{A}: T⟧, {B}: F",
        "_IN_ORDER": f"⟦{TRUTHFUL}, {LYING}⟧",
        "_CALLED_WRONG": f"⟦{A}'s role is wrong⟧",
    },
    "envs.knights_knaves.leaks_readings": {
        "_STRONG_TOKEN": "⟦the others⟧",
        "_TOKEN": "⟦yes⟧, no",
        "_BETWEEN": f"⟦, and then ⟧{TRUTHFUL}",
        "_NOT_TOLD": f"{A} ⟦claims⟧ it",
        "_NOT": f"{A} is ⟦not⟧ a {TRUTHFUL}",
        "_EXCEPT": f"all ⟦but⟧ {A}",
        "_NOBODY": f"⟦no one⟧ is a {LYING}",
        "_ALONE": f"⟦only⟧ {A}",
        "_GROUP": f"the ⟦team⟧ of {A}",
    },
    "envs.math.leaks": {
        "_NUMBER": "that is ⟦3 / 4⟧",
        "_IN_PARTS": "⟦3 sevenths⟧ of it",
        "_CUE": "the ⟦answer is ⟧",
        "_STOP": "12⟦. ⟧Then",
        "_IS_IT": "12⟦ is the correct⟧ one",
        "_PLACE": "⟦step ⟧",
        "_MATH": "so ⟦$x = 2$⟧ follows",
        "_SIGN": "⟦\\dfrac⟧{1}{2}",
        "_UNIT": "5⟦\\text{ cm}^2⟧",
    },
    "envs.math.text": {"_WHOLE": "⟦-1\\,234⟧"},
    "envs.math.leaks_readings": {
        "_DIGIT_BY_DIGIT": "it is ⟦1 - 4 - 4⟧",
        "_OF_DIGITS": "the ⟦digits⟧ 1 and 4",
        "_PLACES": "⟦4 tens⟧ and 2 ones",
    },
    "envs.math.worker": {"_WORDS": "⟦$no solution$⟧"},
    "envs.shortest_path.leaks": {
        "_MOVE": "go ⟦right twice⟧",
        "_JOIN": "⟦, and then ⟧",
        "_TELLS": "you ⟦should⟧ go",
        "_OWN": "⟦instead of⟧ right",
        "_NONE": "the goal is ⟦unreachable⟧",
    },
    "envs.shortest_path.leaks_parts": {
        "_BEGINS": "right⟦ is how it begins⟧",
        "_NUMBERED": "the ⟦3rd move should be ⟧",
        "_NUMBER_AFTER": "⟦right at step 3⟧",
        "_PLACED": "at ⟦(1, 2) go ⟧",
        "_TELLS": "you ⟦should⟧ go",
        "_NOT_TOLD": "⟦you went⟧ right",
        "_CELLS": "⟦(0, 0) -> (0, 1)⟧",
    },
    "envs.shortest_path.leaks_readings": {
        "_TOKEN": "go ⟦3 steps to the right⟧",
        "_BREAK": "⟦instead⟧ of",
        "_CELL_FORMS[1]": "⟦row 1, column 2⟧",
        "_CELL_FORMS[2]": "⟦Zeile 1, Spalte 2⟧",
        "_CELL_FORMS[3]": "then ⟦1, 2⟧;",
        "_JOIN": "⟦, then to the ⟧",
    },
    "envs.shortest_path.text": {"_NEGATED": "it is ⟦not really infeasible⟧"},
    "envs.text.arithmetic_phrases": {
        "_PART": "⟦half of 24⟧",
        "_MULTIPLE": "⟦twice 12⟧",
        "_IN_BASE": "⟦1100 in base 2⟧",
        "_EXPRESSION": "it is ⟦3 * 4 + 1⟧",
    },
    "envs.text.boxed": {"_ASKS_HASHES": "after ⟦####⟧"},
    "envs.text.encodings": {
        "BACKWARDS": "read it ⟦backwards⟧",
        "_BACKWARDS_PIECE": "⟦`42`⟧",
    },
    "envs.text.number_reading": {
        "_HANGUL_RUN": "⟦사십이⟧입니다",
        "_JOINED_WORD": "zwei⟦hundert⟧zwei",
    },
    "envs.text.number_words": {
        "_NUMBER": "⟦one hundred and forty-two⟧",
        "_ORDINAL": "the ⟦third⟧ one",
    },
    "envs.text.plain_text": {
        "_COMMAND": "a ⟦\\rightarrow⟧ b",
        "_WRAPPER": "⟦\\textbf⟧{42}",
        "_ROW_TAG": "0 1⟦<br>⟧1 2",
        "_EMPHASIS": "the ⟦**⟧42**",
        "_LETTERS": "it is ⟦k n i g h t⟧",
    },
    "envs.text.stated": {"_MARKUP": "⟦\\begin{bmatrix}⟧ 0 1"},
    "envs.writing.scoring": {"_SCORE": "⟦**Score:** 7/10⟧"},
    "feedback.guard.equality": {"_NUMBER": "⟦1,234.5%⟧"},
    "feedback.guard.spans": {
        "_QUOTED": "it is ⟦`42`⟧",
        "_TOLD": "the ⟦answer to it is exactly ⟧42",
        "_END": "42⟦, ⟧not 41",
    },
}


def patterns() -> dict[tuple[str, str], re.Pattern[str]]:
    """(module, name) -> pattern, `name[i]` for those in a tuple."""
    found = {}
    for package in (rltf_verl.envs, rltf_verl.feedback.guard):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            names = re.findall(r"^(\w+)(?::.*)? = ", inspect.getsource(module), re.MULTILINE)
            for name in names:
                value = getattr(module, name, None)
                several = isinstance(value, tuple)
                for i, one in enumerate(value if several else [value]):
                    if isinstance(one, re.Pattern):
                        key = f"{name}[{i}]" if several else name
                        found[info.name.removeprefix("rltf_verl."), key] = one
    return found


PATTERNS = patterns()
TEXTS = {(module, name): text for module, own in EXAMPLES.items() for name, text in own.items()}


@pytest.mark.parametrize("place", TEXTS, ids=".".join)
def test_a_pattern_finds_its_example(place: tuple[str, str]) -> None:
    text = TEXTS[place]
    found = PATTERNS[place].search(re.sub("[⟦⟧]", "", text))
    assert found is not None
    assert found[0] == text.partition("⟦")[2].partition("⟧")[0]
    assert found.start() == text.index("⟦")


def test_every_long_pattern_has_an_example() -> None:
    long = {place for place, one in PATTERNS.items() if len(one.pattern) > LONG}
    assert sorted(long - TEXTS.keys()) == []
