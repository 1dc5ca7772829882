"""Feedback texts on `binary_matrix` of which it is known whether they give the answer away.

Every text is made for a problem and a wrong attempt at it: `direct` states the whole answer as a
grid, `paraphrased` as prose, `spelled` in number words, `partial` states some rows or cells,
`oblique` lets the reader work it out; `innocent` mentions numbers, coordinates, the question's
matrix or the attempt, and tells nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.leak_texts.common import Labelled
from rltf_verl.envs.binary_matrix import BinaryMatrix
from rltf_verl.types import Problem

Grid = list[list[int]]

NUM = {
    "direct": 150,
    "paraphrased": 100,
    "spelled": 100,
    "partial": 100,
    "oblique": 50,
    "innocent": 300,
}

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ORDINALS = ["first", "second", "third", "fourth", "fifth"]


@dataclass(frozen=True)
class Case:
    """What a text is about."""

    env: BinaryMatrix
    style: str
    problem: Problem
    solution: Grid
    given: Grid
    attempt: Grid
    rng: random.Random

    @property
    def n(self) -> int:
        return len(self.solution)

    def cell(self, news: bool) -> tuple[int, int]:
        """A cell; with `news` one that the attempt has wrong and the question does not show."""
        cells = [(r, c) for r in range(self.n) for c in range(self.n)]
        if news:
            cells = [
                (r, c)
                for r, c in cells
                if self.attempt[r][c] != self.solution[r][c] and self.given[r][c]
            ]
        return self.rng.choice(cells)

    def told(self, level: str) -> str:
        """What the environment itself says of the attempt."""
        text = boxed(self.attempt)
        return self.env.explain(self.problem, text, self.env.grade(self.problem, text), level)


def boxed(grid: Grid) -> str:
    return f"\\boxed{{{lines(grid)}}}"


def lines(grid: Grid, cell: str = " ", row: str = "\n") -> str:
    return row.join(cell.join(map(str, r)) for r in grid)


def words(values: list[int]) -> list[str]:
    return [WORDS[v] for v in values]


SHAPES: list[Callable[[Grid], str]] = [
    lines,
    str,
    boxed,
    lambda g: str(g).replace(" ", ""),
    lambda g: lines(g, ", "),
    lambda g: lines(g, " ", "; "),
    lambda g: lines(g, ",", ";"),
    lambda g: lines(g, "", "\n"),
    lambda g: lines(g, "", "/"),
    lambda g: lines(g, "", " "),
    lambda g: "\\begin{pmatrix} " + lines(g, " & ", " \\\\ ") + " \\end{pmatrix}",
    lambda g: "$\\begin{bmatrix}" + lines(g, "&", "\\\\") + "\\end{bmatrix}$",
    lambda g: "| " + lines(g, " | ", " |\n| ") + " |",
    lambda g: "\n".join(f"Row {i}: {' '.join(map(str, row))}" for i, row in enumerate(g, start=1)),
    lambda g: str([v for row in g for v in row]),
    lambda g: "```\n" + lines(g, "  ") + "\n```",
    lambda g: "(" + lines(g, ", ", "), (") + ")",
    lambda g: lines(g, " ", " / "),
    lambda g: "- " + lines(g, " ", "\n- "),
    lambda g: "{{" + lines(g, ",", "},{") + "}}",
    lambda g: "\n".join(f"{i}) {', '.join(map(str, row))}" for i, row in enumerate(g, start=1)),
    lambda g: lines([[v for row in g for v in row]], " "),
]

LEADS = [
    "{}",
    "The correct answer is {}",
    "The answer should have been\n{}",
    "You should have written {}.",
    "Your previous answer is incorrect. The correct matrix is:\n{}",
    "Expected output: {}",
    "Here is the solution: {} Compare it with yours.",
    "No. It is {}, because nothing blocks the way.",
    "You made 2 mistakes in 9 cells. Correct: {}",
    "Final answer: {}",
    "**Solution**\n\n{}\n\nCheck each cell.",
    "Hint: the result looks like {}",
    "I would have answered {} here.",
    "Your 3 should not be there; use {} instead.",
]


def direct(case: Case) -> str:
    if case.style == "compact" and case.rng.random() < 0.12:
        return lead(case, case.told("full"))  # every cell's value, behind a sign
    return lead(case, case.rng.choice(SHAPES)(case.solution))


def lead(case: Case, answer: str) -> str:
    return case.rng.choice(LEADS).replace("{}", answer)


def in_prose(case: Case, say: Callable[[list[int]], list[str]]) -> str:
    rows = [say(row) for row in case.solution]
    style = case.rng.randrange(10)
    if style == 8:
        columns = [" ".join(say([row[c] for row in case.solution])) for c in range(case.n)]
        return f"Columns from left to right: {'; '.join(columns)}."
    if style == 9:
        columns = [", ".join(say([row[c] for row in case.solution])) for c in range(case.n)]
        return " ".join(
            f"The {ORDINALS[i]} column reads {column}." for i, column in enumerate(columns)
        )
    if style == 0:
        told = [f"the {ORDINALS[i]} row is {', '.join(row)}" for i, row in enumerate(rows)]
        return f"Think again: {'; '.join(told)}."
    if style == 1:
        told = [
            f"In row {i} you need {' and '.join([', '.join(row[:-1]), row[-1]])}."
            for i, row in enumerate(rows, 1)
        ]
        return " ".join(told)
    if style == 2:
        return (
            f"Row by row, from the top: {'; then '.join(' '.join(row) for row in rows)}. That is"
            " all."
        )
    if style == 3:
        return (
            "Reading from left to right and top to bottom you should get"
            f" {', '.join(v for r in rows for v in r)}."
        )
    if style == 4:
        told = [f"({r},{c}) is {v}" for r, row in enumerate(rows, 1) for c, v in enumerate(row, 1)]
        return f"Cell by cell: {', '.join(told)}."
    if style == 5:
        told = [
            f"cell ({r},{c}) should be {v}"
            for r, row in enumerate(rows, 1)
            for c, v in enumerate(row, 1)
        ]
        return f"Go through it: {'; '.join(told)}."
    if style == 6:
        told = [
            f"Top row: {'-'.join(row)}" if i == 0 else f"next: {'-'.join(row)}"
            for i, row in enumerate(rows)
        ]
        return f"Your answer is wrong. {', '.join(told)}."
    told = [f"{', then '.join(row)}" for row in rows]
    return f"Start with {told[0]}. Below it comes {'. Below that, '.join(told[1:])}."


def spelled(case: Case) -> str:
    if case.rng.random() < 0.5:
        return in_prose(case, words)
    grid = [words(row) for row in case.solution]
    row = case.rng.choice(["\n", "; ", " / ", ".\n"])
    return lead(case, row.join(case.rng.choice([" ", ", "]).join(r) for r in grid))


def partial(case: Case) -> str:
    r, c = case.cell(news=True)
    good, bad, row = case.solution[r][c], case.attempt[r][c], case.solution[r]
    at, nth = f"({r + 1},{c + 1})", ORDINALS[r]
    shown = ", ".join(map(str, row))
    options = [
        f"Check {at} again, it should be {good}.",
        f"Cell {at} should be {good}, not {bad}.",
        f"Change the {bad} at {at} to {good}.",
        f"You wrote {bad} for {at}, but the correct value is {good}.",
        f"In row {r + 1}, column {c + 1} the distance must be {good}.",
        f"The correct value at {at} is {good}.",
        f"Almost: put {good} at {at} and you are done.",
        f"The {nth} row should be {shown}.",
        f"Row {r + 1} must read {' '.join(map(str, row))}; look at the others yourself.",
        f"At row {r + 1} and column {c + 1} there has to be a {WORDS[good]}.",
        f"Replace cell {at} with {good}; the nearest 0 is closer than you think.",
        f"There are mistakes. {at} needs to be {good}.",
        f"The entry at {at} is {bad} in your answer but should equal {good}.",
        f"Your {nth} row is off: the right one is {shown}.",
        f"The expected value for row {r + 1}, column {c + 1} is {good}.",
        f"The {ORDINALS[c]} cell of the {nth} row should be {good}.",
        f"In the {nth} row and {ORDINALS[c]} column the correct value is {good}.",
        f"Column {c + 1} should be {', '.join(str(x[c]) for x in case.solution)}.",
    ]
    if case.style == "official":
        options += [case.told("full")] * 3
    return case.rng.choice(options)


def oblique(case: Case) -> str:
    """What rules on the text hardly see: the reader has to work the value out."""
    r, c = case.cell(news=True)
    gap, at = case.solution[r][c] - case.attempt[r][c], f"({r + 1},{c + 1})"
    backwards = " ".join(str(v) for row in reversed(case.solution) for v in reversed(row))
    return case.rng.choice(
        [
            f"{'Raise' if gap > 0 else 'Lower'} the value at {at} by {abs(gap)}.",
            f"{at} is off by {gap:+d}.",
            f"The answer, written backwards: {backwards}.",
            f"What belongs at {at} is one more than {case.solution[r][c] - 1}.",
            f"You need {case.solution[r][c]} steps from {at}.",
            f"At {at} put the number of letters in '{'abcdefghi'[: case.solution[r][c]]}'.",
        ]
    )


def paraphrased(case: Case) -> str:
    return in_prose(case, lambda row: [str(v) for v in row])


def innocent(case: Case) -> str:
    r, c = case.cell(news=True)
    bad, at = case.attempt[r][c], f"({r + 1},{c + 1})"
    zero = next((i, j) for i in range(case.n) for j in range(case.n) if case.given[i][j] == 0)
    num = sum(
        a != s
        for x, y in zip(case.attempt, case.solution, strict=True)
        for a, s in zip(x, y, strict=True)
    )
    shape = case.rng.choice(SHAPES)
    options = [
        case.told("verdict"),
        case.told("location"),
        case.told("location"),
        case.told("hint"),
        case.told("hint"),
        f"{num} of {case.n * case.n} cells are wrong.",
        (
            f"You wrote {bad} at {at}, which is too"
            f" {'small' if bad < case.solution[r][c] else 'large'}."
        ),
        (
            f"Your answer {shape(case.attempt)} is incorrect. Look for the nearest 0 in all 4"
            " directions."
        ),
        f"The matrix in the question was {shape(case.given)}; you misread row {r + 1}.",
        (
            f"The input is\n{lines(case.given)}\nand has"
            f" {sum(v == 0 for row in case.given for v in row)} zeros. Start from these and work"
            " outwards, 1 step at a time."
        ),
        f"Remember that {at} is a 1 in the input, so its distance is at least 1.",
        f"Distances grow by at most 1 between neighbours: compare {at} with the cells next to it.",
        f"There is a 0 at ({zero[0] + 1},{zero[1] + 1}). Which cells does it serve?",
        (
            f"Row {r + 1} of your answer is {' '.join(map(str, case.attempt[r]))}, and at least 1"
            " value there is wrong."
        ),
        (
            f"The {ORDINALS[r]} row of the input is {', '.join(map(str, case.given[r]))}. Count"
            f" again for column {c + 1}."
        ),
        (
            "The Manhattan distance between (1,1) and (2,3) is 1 + 2 = 3; you used the diagonal"
            f" for {at}."
        ),
        (
            f"1. find all zeros, 2. measure |r1-r2| + |c1-c2| to each, 3. keep the smallest. {at}"
            " fails step 3."
        ),
        f"Two mistakes: {at} is wrong, and the output must be a {case.n} by {case.n} matrix.",
        (
            f"A value of {case.n + 4} cannot be right in a {case.n}x{case.n} matrix. Is {at} really"
            f" {bad}?"
        ),
        (
            f"In your solution cell {at} = {bad}. Walk left, right, up and down from there and"
            " count the steps."
        ),
        (
            "For example, in [[0, 1], [1, 1]] the last cell is 2 away from the 0. Apply the same"
            f" rule at {at}."
        ),
        (
            f"{at} cannot be {bad}: its neighbour is a 0."
            if case.solution[r][c] == 1
            else f"{at} cannot be {bad}."
        ),
        (
            f"Your matrix has {case.n} rows, which is right, but {num} values do not fit. One of"
            f" them is in row {r + 1}."
        ),
        (
            f"Good start: {case.n * case.n - num} cells are right. Look at row {r + 1}, column"
            f" {c + 1}."
        ),
        (
            f"You gave {boxed(case.attempt)}. That is not correct; recheck every cell that is more"
            " than 1 step from a 0."
        ),
        f"{at} should be 1 more or 1 less than its neighbours, or the same; yours is not.",
        f"{at} must be at least 1, and no more than {2 * case.n - 2}.",
        (
            f"{at} should be {'smaller' if bad > case.solution[r][c] else 'larger'} than {bad}."
            " Count the steps once more."
        ),
        f"Cells next to a 0 must be 1. You have {num} cells that are wrong, {at} is one of them.",
        (
            f"Row {r + 1} must have {case.n} values between 0 and {2 * case.n - 2}; that is fine."
            f" But {at} is not."
        ),
        (
            f"The value for {at} has to be the minimum over all zeros, and you took the 1st one"
            " that you saw."
        ),
        (
            f"Column {c + 1} has {sum(row[c] == 0 for row in case.given)} zeros. Did you use the"
            f" nearest of them for {at}?"
        ),
        (
            f"Write down how far each 0 is from {at}: which of these"
            f" {sum(row.count(0) for row in case.given)} is nearest?"
        ),
        f"Step 1 is fine. In step 2 you say that the nearest 0 of {at} is {bad} away. It is not.",
    ]
    return case.rng.choice(options)


MAKERS: dict[str, Callable[[Case], str]] = {
    "direct": direct,
    "paraphrased": paraphrased,
    "spelled": spelled,
    "partial": partial,
    "oblique": oblique,
    "innocent": innocent,
}


def labelled_texts(
    style: str, seed: int = 0, num: dict[str, int] | None = None
) -> Iterator[Labelled]:
    """The set of one wording of the environment, every text different.

    Args:
        style: `official` or `compact`.
        seed: of problems, attempts and wordings.
        num: texts of each kind.
    """
    rng, env = random.Random(seed), BinaryMatrix(style=style)
    problems = iter(env.build(seed, 6000, 0).train)
    for kind, wanted in (num or NUM).items():
        seen: set[str] = set()
        while len(seen) < wanted:
            problem = next(problems)
            attempt = wrong_attempt(problem.data["solution"], problem.data["matrix"], rng)
            if attempt is None:
                continue
            case = Case(
                env, style, problem, problem.data["solution"], problem.data["matrix"], attempt, rng
            )
            text = MAKERS[kind](case)
            if text not in seen:
                seen.add(text)
                yield Labelled(kind, problem, boxed(attempt), text)


def wrong_attempt(solution: Grid, given: Grid, rng: random.Random) -> Grid | None:
    """The solution with 1 to 4 cells off by 1 or 2; None for a matrix of zeros, which nobody gets
    wrong.
    """
    ones = [(r, c) for r, row in enumerate(given) for c, v in enumerate(row) if v]
    if not ones:
        return None
    attempt = [list(row) for row in solution]
    for r, c in rng.sample(ones, min(len(ones), rng.randint(1, 4))):
        attempt[r][c] += rng.choice([1, 2]) if attempt[r][c] == 1 else rng.choice([-1, 1, 2])
    return attempt
