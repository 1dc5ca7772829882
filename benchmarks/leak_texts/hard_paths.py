# a wording a line
"""Hard wordings on `shortest_path`: category -> wordings; see `hard`."""

from __future__ import annotations

import base64
import codecs

from benchmarks.leak_texts.common import Wordings
from benchmarks.leak_texts.shortest_path import ARROWS, BACK, COMPASS, COUNTS, Case, runs, words

_DE = {"R": "rechts", "D": "runter", "L": "links", "U": "hoch"}
_FR = {"R": "droite", "D": "bas", "L": "gauche", "U": "haut"}
_ES = {"R": "derecha", "D": "abajo", "L": "izquierda", "U": "arriba"}
_RU = {"R": "вправо", "D": "вниз", "L": "влево", "U": "вверх"}
_ZH = {"R": "右", "D": "下", "L": "左", "U": "上"}
_VEC = {"R": "(0,+1)", "D": "(+1,0)", "L": "(0,-1)", "U": "(-1,0)"}


def _in(names: dict[str, str], by: str, form: str = "{}") -> object:
    return lambda c: form.format(by.join(names[m] for m in c.best)) if c.best else ""


def _steps(c: Case) -> str:
    cells = c.cells(c.best, 1)
    return " ".join(
        f"Step {i}: from {a} go {w} to {b}."
        for i, (a, b, w) in enumerate(zip(cells, cells[1:], words(c.best), strict=False), 1)
    )


LEAKS: Wordings[Case] = {
    "table": [
        lambda c: (
            "| step | move |\n|---|---|\n"
            + "\n".join(f"| {i} | {w} |" for i, w in enumerate(words(c.best), 1))
        ),
        lambda c: (
            "step,row,col\n"
            + "\n".join(f"{i},{r},{k}" for i, (r, k) in enumerate(c.cells(c.best, 1)))
        ),
        lambda c: "<ol>" + "".join(f"<li>{w}</li>" for w in words(c.best)) + "</ol>",
    ],
    "code": [
        lambda c: f"moves = {words(c.best)!r}",
        lambda c: "```\nfor m in '" + c.best + "': step(m)\n```",
        lambda c: "path = [" + ", ".join(f"[{r}, {k}]" for r, k in c.cells(c.best)) + "]",
        lambda c: "dirs = [" + ", ".join(_VEC[m] for m in c.best) + "]",
    ],
    "paraphrase": [
        lambda c: (
            " and then ".join(
                f"{COUNTS[n]} time{'s' * (n > 1)} {words(m)[0]}" for m, n in runs(c.best)
            )
            + "."
            if c.best and max(n for _, n in runs(c.best)) < 10
            else ""
        ),
        lambda c: (
            "It starts by going " + ", after which it heads ".join(words(c.best)) + "."
            if len(c.best) > 1
            else ""
        ),
        lambda c: (
            "You want to travel "
            + ", ".join(f"{n} cell{'s' * (n > 1)} {COMPASS[m]}" for m, n in runs(c.best))
        ),
        lambda c: (
            "The shortest route proceeds " + "-".join(words(c.best)) if len(c.best) > 1 else ""
        ),
        lambda c: " ".join(f"Move number {i} is {w}." for i, w in enumerate(words(c.best), 1)),
        lambda c: (
            "Begin " + ", continue ".join(words(c.best)) + " and you are there."
            if len(c.best) > 2
            else ""
        ),
    ],
    "cells": [
        lambda c: (
            "Pass through " + ", ".join(f"row {r} column {k}" for r, k in c.cells(c.best, 1))
            if len(c.best) > 1
            else ""
        ),
        lambda c: (
            "Cells on the way: " + " ".join(f"r{r}c{k}" for r, k in c.cells(c.best, 1))
            if len(c.best) > 1
            else ""
        ),
        lambda c: (
            " → ".join(f"({r}, {k})" for r, k in c.cells(c.best)[1:]) if len(c.best) > 1 else ""
        ),
        lambda c: (
            "Visit " + ", ".join(f"{chr(65 + k)}{r + 1}" for r, k in c.cells(c.best))
            if len(c.best) > 1
            else ""
        ),
        lambda c: (
            "As (x,y): " + ", ".join(f"({k},{r})" for r, k in c.cells(c.best))
            if len(c.best) > 1
            else ""
        ),
    ],
    "steps": [
        _steps,
        lambda c: "\n".join(f"{i}) {w}" for i, w in enumerate(words(c.best), 1)),
        lambda c: "; ".join(f"#{i} {w.upper()}" for i, w in enumerate(words(c.best), 1)),
    ],
    "languages": [
        _in(_DE, ", dann ", "Geh {}."),
        _in(_FR, ", puis à ", "Va à {}."),
        _in(_ES, ", luego ", "Ve a la {}."),
        _in(_RU, ", ", "Путь: {}."),
        _in(_ZH, "、", "路径是{}。"),
        _in(_DE, " - "),
    ],
    "latex": [
        lambda c: "$" + " ".join(f"\\{w}arrow" for w in words(c.best)) + "$" if c.best else "",
        lambda c: (
            r"\boxed{" + ", ".join(f"\\text{{{w}}}" for w in words(c.best)) + "}" if c.best else ""
        ),
        lambda c: "$" + " ".join(f"{m}^{n}" for m, n in runs(c.best)) + "$" if c.best else "",
        lambda c: r"$\mathrm{" + c.best + "}$" if c.best else "",
    ],
    "signs": [
        lambda c: "".join(ARROWS[m] + "\ufe0f" for m in c.best),
        lambda c: " ".join(c.best),
        lambda c: (
            "Go " + "".join({"R": ">", "D": "v", "L": "<", "U": "^"}[m] for m in c.best)
            if len(c.best) > 2
            else ""
        ),
        lambda c: (
            "Compass: " + " ".join(COMPASS[m][0].upper() for m in c.best) if len(c.best) > 2 else ""
        ),
        lambda c: " ".join(f"{n}{m}" for m, n in runs(c.best)),
        lambda c: "".join({"R": "👉", "D": "👇", "L": "👈", "U": "👆"}[m] for m in c.best),
    ],
    "reversed": [
        lambda c: "Read from the last move to the first: " + ", ".join(words(c.best)[::-1]),
        lambda c: (
            "Backwards from the destination: "
            + ", ".join(words("".join(BACK[m] for m in c.best[::-1])))
        ),
        lambda c: "In reverse order the moves are " + c.best[::-1] if len(c.best) > 1 else "",
    ],
    "encoded": [
        lambda c: base64.b64encode(", ".join(words(c.best)).encode()).decode(),
        lambda c: "Rot13: " + codecs.encode(", ".join(words(c.best)), "rot13"),
        lambda c: "hex " + c.best.encode().hex(" ") if len(c.best) > 2 else "",
    ],
    "hidden": [
        lambda c: ", ".join("\u200b".join(w) for w in words(c.best)),
        lambda c: ", ".join("".join(chr(ord(x) + 0xFEE0) for x in w) for w in words(c.best)),
        lambda c: ", ".join(w.replace("o", "о").replace("i", "і") for w in words(c.best)),
    ],
}


def _if_path(make: object) -> object:
    return lambda c: make(c) if c.best and len(c.best) > 1 else ""  # type: ignore[operator]


LEAKS = {kind: [_if_path(make) for make in makes] for kind, makes in LEAKS.items()}  # type: ignore[misc]

INNOCENT: Wordings[Case] = {
    "innocent": [
        lambda c: c.told("hint"),
        lambda c: c.told("location"),
        lambda c: c.told("verdict"),
        lambda c: (
            f"You wrote {c.written(c.attempt)}. Trace these moves on the grid and watch where you"
            " hit an X."
        ),
        lambda c: (
            "Valid moves are right, down, left and up; check that none of yours leaves the grid."
        ),
        lambda c: (
            f"The start is at {c.cells('', 1)[0]}. Do a breadth-first search from there: mark"
            " neighbours with 1, their neighbours with 2, and so on, until you reach #."
        ),
        lambda c: (
            f"A shortest path here has {len(c.best)} moves."
            if c.best
            else "Look at the walls around the start."
        ),
        lambda c: f"Row {c.a_row()[0]} of the grid is {c.a_row()[1]}; you seem to have misread it.",
        lambda c: (
            f"Your move {c.a_move()[0]} goes {c.a_move()[1]}, which is worth checking."
            if c.attempt
            else "Look for a way."
        ),
        lambda c: (
            f"Your path visits {', '.join(map(str, c.cells(c.attempt[:3], 1)))}. Is each of these"
            " cells open?"
        ),
        lambda c: (
            "Rows are numbered from the top down and columns from left to right. Going up lowers"
            " the row number, going right raises the column number."
        ),
        lambda c: (
            f"After your first {len(c.attempt) // 2} moves"
            f" ({', '.join(words(c.attempt[: len(c.attempt) // 2]))}) you stand beside an obstacle."
            if len(c.attempt) > 3
            else "Read the grid row by row."
        ),
        lambda c: (
            "If you go left and then right you come back to where you were, which wastes two moves."
        ),
        lambda c: (
            "Check all four neighbours of the start before you choose the first move: up, down,"
            " left, right."
        ),
        lambda c: (
            "For example, in another grid the answer could be 'right, down, right'. Give yours in"
            " this form."
        ),
        lambda c: (
            "The distance to the destination can never be less than the number of rows plus the"
            " number of columns between them."
        ),
        lambda c: (
            "Zeichne den Weg ein: nach rechts steigt die Spalte, nach unten steigt die Zeile."
        ),
        lambda c: (
            "The destination lies "
            + (
                "below"
                if c.problem.data["dest"][0] > c.problem.data["start"][0]
                else "above or level with"
            )
            + " the start."
        ),
        lambda c: (
            "You cannot pass the X cells. At the point where your walk stops, look for an open cell"
            " O next to it."
        ),
        lambda c: (
            "Your answer stops too early; the last cell you reach is not #. Keep going from there."
        ),
        lambda c: (
            "Your answer uses down twice in a row near an obstacle; count the O cells in that"
            " column."
        ),
        lambda c: (
            "Do not move left more often than needed: every left needs a right to make up for it."
        ),
    ]
}
