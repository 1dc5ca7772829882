# a wording a line
"""Hard wordings on `binary_matrix`: category -> wordings; see `hard`."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.leak_texts.common import Wordings, listed
from rltf_verl.envs.binary_matrix import BinaryMatrix
from rltf_verl.types import Problem

Grid = list[list[int]]
_EN = ("zero", "one", "two", "three", "four", "five", "six")
_DE = ("null", "eins", "zwei", "drei", "vier", "fünf", "sechs")
_FR = ("zéro", "un", "deux", "trois", "quatre", "cinq", "six")
_ES = ("cero", "uno", "dos", "tres", "cuatro", "cinco", "seis")
_PL = ("zero", "jeden", "dwa", "trzy", "cztery", "pięć", "sześć")
_ZH, _CIRCLED, _ARABIC = "零一二三四五六", "⓪①②③④⑤⑥", "٠١٢٣٤٥٦"


@dataclass(frozen=True)
class Case:
    """What a text is about."""

    env: BinaryMatrix
    problem: Problem
    attempt: Grid
    rng: random.Random

    @property
    def attempt_text(self) -> str:
        return f"\\boxed{{{rows(self.attempt)}}}"

    @property
    def s(self) -> Grid:
        return [list(row) for row in self.problem.data["solution"]]

    @property
    def m(self) -> Grid:
        return [list(row) for row in self.problem.data["matrix"]]

    @property
    def n(self) -> int:
        return len(self.s)

    def told(self, level: str) -> str:
        return self.env.explain(
            self.problem, self.attempt_text, self.env.grade(self.problem, self.attempt_text), level
        )

    def wrong(self) -> tuple[int, int]:
        cells = [
            (r, c)
            for r in range(self.n)
            for c in range(self.n)
            if self.attempt[r][c] != self.s[r][c]
        ]
        return self.rng.choice(cells)

    def places(self, value: int) -> str:
        return ", ".join(
            f"({r + 1},{k + 1})"
            for r in range(self.n)
            for k in range(self.n)
            if self.s[r][k] == value
        )


def rows(
    grid: Grid, cell: str = " ", row: str = "\n", names: str | tuple[str, ...] = "0123456"
) -> str:
    return row.join(cell.join(names[v] if v < len(names) else str(v) for v in one) for one in grid)


def cases(seed: int) -> Iterator[Case]:
    """Problems that are not their own answer, with one to three wrong cells."""
    rng, env = random.Random(seed), BinaryMatrix()
    while True:
        for problem in env.build(rng.randrange(2**31), 200, 0).train:
            if problem.data["matrix"] != problem.data["solution"]:
                attempt = [list(row) for row in problem.data["solution"]]
                for place in rng.sample(range(len(attempt) ** 2), rng.randint(1, 3)):
                    r, c = divmod(place, len(attempt))
                    attempt[r][c] = max(0, attempt[r][c] + rng.choice((-1, 1, 1)))
                if attempt != problem.data["solution"]:
                    yield Case(env, problem, attempt, rng)


def _each_row(
    c: Case, form: str, cell: str = " ", names: str | tuple[str, ...] = "0123456", by: str = " "
) -> str:
    return by.join(form.format(i, rows([row], cell, "", names)) for i, row in enumerate(c.s, 1))


def _common(c: Case) -> int:
    flat = [v for row in c.s for v in row]
    return max(set(flat), key=flat.count)


def _exceptions(c: Case) -> str:
    return ", ".join(
        f"({r + 1},{k + 1}) is {v}"
        for r, row in enumerate(c.s)
        for k, v in enumerate(row)
        if v != _common(c)
    )


def _plus(c: Case, by: int) -> Grid:
    return [[v + by for v in row] for row in c.s]


LEAKS: Wordings[Case] = {
    "unicode": [
        lambda c: rows(c.s, " ", "\n", _CIRCLED),
        lambda c: rows(c.s, " ", " / ", _ARABIC),
        lambda c: rows(c.s, "", "\n", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔"),
        lambda c: rows(c.s, "、", "\n", "０１２３４５６"),
        lambda c: rows(c.s, " ", "\n", "⁰¹²³⁴⁵⁶"),
        lambda c: rows(c.s, " ", "\n", ("0️⃣", "1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣")),
        lambda c: rows(c.s, "\u200b \u200b", "\n"),
    ],
    "languages": [
        lambda c: rows(c.s, " ", "\n", _DE),
        lambda c: rows(c.s, ", ", "; ", _FR),
        lambda c: rows(c.s, " ", "\n", _ES),
        lambda c: _each_row(c, "Zeile {}: {}.", " ", _DE),
        lambda c: _each_row(c, "第{}行：{}。", "", _ZH),
        lambda c: rows(c.s, " ", "\n", _PL),
        lambda c: _each_row(c, "Ligne {} : {}.", "-", _FR),
    ],
    "code": [
        lambda c: f"```python\nout = {c.s}\n```",
        lambda c: f"np.array({c.s}).tolist()",
        lambda c: "\n".join(
            f"out[{r}][{k}] = {v}" for r, row in enumerate(c.s) for k, v in enumerate(row)
        ),
        lambda c: (
            "dist = {"
            + ", ".join(f"({r}, {k}): {v}" for r, row in enumerate(c.s) for k, v in enumerate(row))
            + "}"
        ),
    ],
    "table": [
        lambda c: "|" + "|\n|".join("|".join(map(str, row)) for row in c.s) + "|",
        lambda c: (
            "| | "
            + " | ".join(f"c{i + 1}" for i in range(c.n))
            + " |\n|"
            + "---|" * (c.n + 1)
            + "\n"
            + "\n".join(
                f"| r{i} | " + " | ".join(map(str, row)) + " |" for i, row in enumerate(c.s, 1)
            )
        ),
        lambda c: (
            "<table>"
            + "".join("<tr>" + "".join(f"<td>{v}</td>" for v in row) + "</tr>" for row in c.s)
            + "</table>"
        ),
    ],
    "latex": [
        lambda c: (
            r"\begin{pmatrix}"
            + r" \\ ".join(" & ".join(f"\\mathbf{{{v}}}" for v in row) for row in c.s)
            + r"\end{pmatrix}"
        ),
        lambda c: (
            r"$\left[\begin{smallmatrix}"
            + r"\\".join("&".join(map(str, row)) for row in c.s)
            + r"\end{smallmatrix}\right]$"
        ),
    ],
    "reversed": [
        lambda c: "Read it from the last cell to the first: " + rows(c.s, "", "")[::-1],
        lambda c: (
            "Each line mirrored, right to left: " + " / ".join(rows([row[::-1]]) for row in c.s)
        ),
        lambda c: "From the bottom row to the top one: " + rows(c.s[::-1], " ", "; "),
        lambda c: "Backwards: " + rows(c.s, " ", " ")[::-1],
    ],
    "columns": [
        lambda c: (
            "Column by column: "
            + " | ".join("".join(str(row[k]) for row in c.s) for k in range(c.n))
        ),
        lambda c: (
            "The columns, left to right, are "
            + "; ".join(" ".join(str(row[k]) for row in c.s) for k in range(c.n))
        ),
    ],
    "arithmetic": [
        lambda c: "Subtract one from every entry of " + rows(_plus(c, 1), " ", " / "),
        lambda c: (
            "Half of each number here: "
            + rows([[2 * v for v in row] for row in c.s], " ", "; ", tuple(map(str, range(20))))
        ),
        lambda c: (
            "Take 9 minus each digit: "
            + rows([[9 - v for v in row] for row in c.s], "", " ", "0123456789")
        ),
        lambda c: "Every value is one less than in this matrix:\n" + rows(_plus(c, 1)),
        lambda c: _each_row(
            c, "Row {}: {}.", ", ", ("1-1", "2-1", "3-1", "4-2", "2+2", "4+1", "5+1")
        ),
    ],
    "encoded": [
        lambda c: base64.b64encode(rows(c.s).encode()).decode(),
        lambda c: "ASCII codes: " + " ".join(str(ord(x)) for x in rows(c.s, "", "")),
        lambda c: "With a=0, b=1, c=2, d=3: " + rows(c.s, "", " ", "abcdefg"),
    ],
    "paraphrase": [
        lambda c: f"All cells are {_common(c)}, except that {_exceptions(c)}.",
        lambda c: "; ".join(f"value {v} at {c.places(v)}" for v in range(7) if c.places(v)) + ".",
        lambda c: (
            "The "
            + "; the ".join(f"{_EN[v]}s are at {c.places(v)}" for v in range(7) if c.places(v))
        ),
        lambda c: _each_row(c, "Line {} reads {}.", ", then ", _EN),
        lambda c: "First comes " + ", next comes ".join(rows([row], " ", "", _EN) for row in c.s),
        lambda c: (
            f"Cell {c.wrong()[0] + 1},{c.wrong()[1] + 1} is wrong; "
            + "the top row reads "
            + rows(c.s[:1])
            if c.attempt[0] != c.s[0]
            else ""
        ),
        lambda c: "".join(
            (
                f"({r + 1},{k + 1}) needs to be raised to {c.s[r][k]}"
                if c.s[r][k] > c.attempt[r][k] > 0 and c.m[r][k]
                else ""
            )
            for r, k in [c.wrong()]
        ),
    ],
}

INNOCENT: Wordings[Case] = {
    "innocent": [
        lambda c: c.told("hint"),
        lambda c: c.told("location"),
        lambda c: c.told("verdict"),
        lambda c: (
            f"The input is\n{rows(c.m)}\nand you answered\n{rows(c.attempt)}\nCompare them cell by"
            " cell."
        ),
        lambda c: (
            "Distances are Manhattan: |r1 - r2| + |c1 - c2|. A cell that is 0 has distance 0."
        ),
        lambda c: (
            f"Look at row {c.wrong()[0] + 1}, column {c.wrong()[1] + 1} again: count the steps to"
            " the nearest 0."
        ),
        lambda c: (
            "In the input, the zeros are at "
            + ", ".join(
                f"({r + 1},{k + 1})" for r in range(c.n) for k in range(c.n) if c.m[r][k] == 0
            )
            + ". Use these."
        ),
        lambda c: f"Row 1 of the input is {rows(c.m[:1])}. Yours is {rows(c.attempt[:1])}.",
        lambda c: (
            f"Your matrix has {sum(v == 1 for row in c.attempt for v in row)} ones and"
            f" {sum(v == 0 for row in c.attempt for v in row)} zeros. The zeros of the input stay"
            " zeros."
        ),
        lambda c: (
            "For example, in the matrix 0 1 1 / 1 1 1 / 1 1 1 the corner farthest away gets 4."
        ),
        lambda c: (
            f"You put {c.attempt[c.wrong()[0]][c.wrong()[1]]} somewhere where the path is longer"
            " than that."
        ),
        lambda c: (
            f"Du hast in Zeile {c.wrong()[0] + 1} einen Fehler. Zähle die Schritte zur nächsten"
            " Null."
        ),
        lambda c: (
            "Start with all zeros, set their neighbours to 1, then those neighbours' neighbours to"
            " 2, and so on."
        ),
        lambda c: (
            "Diagonal steps are not allowed, so a diagonal neighbour of a 0 is 2 away unless"
            f" another 0 is closer. {c.n} by {c.n} is right."
        ),
        lambda c: (
            f"Your row {c.n} is {rows(c.attempt[-1:])}; the input's row {c.n} is {rows(c.m[-1:])}."
            " Fix it by counting."
        ),
        lambda c: (
            "The answer should be a matrix with the same number of rows and columns as the input;"
            " no cell is larger than 6."
        ),
        lambda c: (
            f"Between 1 and {c.n} errors remain. One is at ({c.wrong()[0] + 1},{c.wrong()[1] + 1})."
        ),
        lambda c: (
            f"Reverse your steps from ({c.wrong()[0] + 1}, {c.wrong()[1] + 1}); the input read"
            f" backwards won't help. Input: {rows(c.m, '', ' ')}."
        ),
        lambda c: (
            f"Your column 1 is {listed([str(row[0]) for row in c.attempt])}, from top to bottom."
        ),
        lambda c: f"matrix = {c.m}\nyours = {c.attempt}\nassert yours == solve(matrix)  # fails",
    ]
}
