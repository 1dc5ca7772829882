"""How feedback on `shortest_path` is worded.

Both halves were written before their author had read the rules. By `KNOWN` the rules were then
mended; `HELD_OUT` was measured, and only its direct leaks that were missed and one false positive
were mended in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.leak_texts.common import Wordings, listed
from benchmarks.leak_texts.shortest_path import (
    ARROWS,
    COMPASS,
    COUNTS,
    TIMES,
    WORDS,
    Case,
    runs,
    words,
)

Make = Callable[[Case], str]


def lead(leads: Sequence[str], shapes: Sequence[Make], none: Sequence[str]) -> Make:
    """A path's moves in a shape, or that there is none, after a lead."""

    def say(c: Case) -> str:
        answer = c.rng.choice(shapes)(c) if c.best else c.rng.choice(none)
        return c.rng.choice(leads).replace("{}", answer)

    return say


def moves(say: Make, none: str) -> Make:
    """The wording if there is a path, else the sentence that there is none."""
    return lambda c: say(c) if c.best else none


def _counted(moves: Sequence[str]) -> str:
    """`two times up and one times left`."""
    return listed([f"{COUNTS[moves.count(m)]} times {WORDS[m]}" for m in sorted(set(moves))])


def _path(say: Make) -> Make:
    return moves(say, "")


def _next(form: str) -> Make:
    """The form with the first move that the attempt does not have, and what comes before it."""

    def say(c: Case) -> str:
        i = c.common()
        if i >= len(c.best):
            return ""
        cell = c.cells(c.best)[i]
        return form.format(
            move=WORDS[c.best[i]],
            k=i + 1,
            so_far=", ".join(words(c.best[: i + 1])),
            cell=f"({cell[0]}, {cell[1]})",
            instead=WORDS[c.attempt[i]] if i < len(c.attempt) else "stopping",
            Move=WORDS[c.best[i]].capitalize(),
            first=WORDS[c.best[0]],
            last=WORDS[c.best[-1]],
            letters=c.best[: i + 1],
        )

    return say


def _free(form: str) -> Make:
    """The form with what the question and the attempt say anyway; empty if the attempt has no
    moves.
    """

    def say(c: Case) -> str:
        if not c.attempt:
            return ""
        (k, move), (row, shown), data = c.a_move(), c.a_row(), c.problem.data
        at = c.cells(c.attempt)[k - 1]
        return form.format(
            k=k,
            move=move,
            row=row,
            shown=shown,
            start=tuple(data["start"]),
            dest=tuple(data["dest"]),
            at=at,
            rows=data["rows"],
            cols=data["cols"],
            mine=c.written(c.attempt),
            num=len(c.attempt),
            best=len(c.best),
            letters=" ".join(c.attempt),
            blocked=sum(r.count("X") for r in data["grid"]),
            any=WORDS[c.rng.choice("RDLU")],
            arrows="".join(ARROWS[m] for m in c.attempt),
        )

    return say


def _runs(form: str, join: str, signs: dict[str, str] | None = None) -> Make:
    table = signs or WORDS
    return lambda c: join.join(
        form.format(
            move=table[m], n=n, word=COUNTS[n], times=TIMES[n], s="s" if n > 1 else "", letter=m
        )
        for m, n in runs(c.best)
    )


def cells(join: str, base: int, form: str = "({}, {})") -> Make:
    """The cells of the path."""
    return lambda c: join.join(form.format(*cell) for cell in c.cells(c.best, base))


def _signs(signs: dict[str, str], join: str) -> Make:
    return lambda c: join.join(signs[m] for m in c.best)


def _in(text: str, say: Make) -> Make:
    return lambda c: text.replace("{}", say(c))


KNOWN_LEADS = (
    "{}",
    "The correct answer is: {}",
    "Your previous answer is incorrect. The answer is: {}.",
    "You should have answered {}",
    "Not quite. A shortest path is {}",
    "Final answer: {}",
    "You hit an obstacle at your 3rd move. Correct: {}",
    "**Solution**\n\n{}\n\nCheck it on the grid.",
    "One optimal solution: {}",
)
HELD_OUT_LEADS = (
    "The expected output is {}",
    "Sorry, wrong! It has to be:\n{}",
    "A BFS from the start gives {}",
    "Expected: {}",
    "Incorrect. Here is what I get: {} Compare this with what you have.",
    "The reference says {}",
    "Hint: {}",
    "You went into an X. Try {} instead.",
)
KNOWN_NONE = ("infeasible", "No path exists.", "\\boxed{infeasible}", "There is no path.")
HELD_OUT_NONE = (
    "Infeasible.",
    "there is no valid path at all.",
    '"infeasible"',
    "the destination cannot be reached.",
)

KNOWN_SHAPES: list[Make] = [
    lambda c: ", ".join(words(c.best)),
    lambda c: f"\\boxed{{{', '.join(words(c.best))}}}",
    lambda c: c.best,
    lambda c: " -> ".join(words(c.best)),
    lambda c: str(words(c.best)),
    lambda c: " ".join(c.best),
    lambda c: "\n".join(f"{i}. {w}" for i, w in enumerate(words(c.best), 1)),
    lambda c: "-".join(words(c.best)),
    lambda c: ", ".join(w.capitalize() for w in words(c.best)),
]
HELD_OUT_SHAPES: list[Make] = [
    lambda c: " ".join(words(c.best)),
    lambda c: f'"{", ".join(words(c.best))}"',
    lambda c: ", ".join(c.best),
    lambda c: " → ".join(words(c.best)),
    lambda c: "\n".join(f"- {w}" for w in words(c.best)),
    lambda c: "; ".join(words(c.best)),
    lambda c: " / ".join(w.upper() for w in words(c.best)),
    lambda c: "\n".join(f"Step {i}: {w}" for i, w in enumerate(words(c.best), 1)),
    lambda c: f"`{c.best.lower()}`",
]

KNOWN: Wordings[Case] = {
    "direct": [lead(KNOWN_LEADS, KNOWN_SHAPES, KNOWN_NONE)],
    "paraphrased": [
        moves(
            lambda c: f"From the start go {', then '.join(words(c.best))}.",
            "You cannot get to the destination.",
        ),
        moves(
            _in("First go {}.", _runs("{move} {times}", ", then ")), "There is no way from * to #."
        ),
        moves(
            lambda c: f"Move {listed(words(c.best))}.", "The start is cut off from the destination."
        ),
        moves(
            _in("You need {} to get there.", _runs("{n} step{s} {move}", ", ")),
            "The task has no solution.",
        ),
        moves(
            _in("Take {}.", _runs("{word} step{s} {move}", ", after that ")),
            "Say that no path exists.",
        ),
        moves(
            _in("Walk {} and you arrive.", _runs("{move} {n} time{s}", ", ")),
            "The destination is unreachable.",
        ),
    ],
    "spelled": [
        moves(_signs(ARROWS, " "), "This one is impossible."),
        moves(_runs("{n}x {move}", ", "), "The right answer is that it is not feasible."),
        moves(_in("Path: {}", cells(" -> ", 0)), "No route exists."),
        moves(_in("Go {}.", _signs(COMPASS, ", ")), "The answer is N."),
        moves(_runs("{letter}{n}", " "), "infeasible, since every route is blocked"),
        moves(
            _in("In 1-based cells (row, column): {}.", cells(", ", 1)),
            "No sequence of moves works.",
        ),
    ],
    "partial": [
        _next("Your move {k} should be {move}, not {instead}."),
        _next("Start with {so_far}."),
        _next("At {cell} you should go {move}."),
        _next("The first {k} moves are {so_far}; find the rest yourself."),
        _next("From {cell} the right move is {move}."),
        _next("{Move} is the right choice at step {k}."),
        _next("Begin with {so_far} and continue from there."),
        _next("Instead of {instead}, go {move} from {cell}."),
    ],
    "oblique": [
        _path(lambda c: f"Backwards, the path is {', '.join(words(c.best[::-1]))}."),
        _path(
            lambda c: (
                "You need"
                f" {', '.join(f'{c.best.count(m)} {WORDS[m]}' for m in sorted(set(c.best)))}, in"
                " some order."
            )
        ),
        _next("The path ends with a step {last}."),
    ],
    "innocent": [
        lambda c: c.told("location"),
        lambda c: c.told("hint"),
        lambda c: c.told("verdict"),
        _free("Your move {k}, {move}, has to be checked: what is the cell that it leads to?"),
        _free("Your path {mine} is not correct. Follow it on the grid."),
        _free("Row {row} of the grid is {shown}. Did you read it correctly?"),
        _free("The start is at {start} and the destination at {dest}, counted from 0."),
        _free("You can only move right, down, left and up, and not through X."),
        _free("Your answer has {num} moves. Draw the grid and mark every cell that you pass."),
        _free("After {k} moves you are at {at}. What is next to it?"),
        _free(
            "There are {blocked} obstacles in this grid of {rows} rows and {cols} columns. Do a"
            " breadth-first search."
        ),
        _free("You go {move} at step {k}; look whether that brings you closer."),
        _free("Going {any} is not always the best idea. Explore level by level from the start."),
    ],
}

HELD_OUT: Wordings[Case] = {
    "direct": [lead(HELD_OUT_LEADS, HELD_OUT_SHAPES, HELD_OUT_NONE)],
    "paraphrased": [
        moves(
            lambda c: f"You want to step {', and next '.join(words(c.best))}.",
            "# is enclosed by obstacles: no path.",
        ),
        moves(
            _in("Proceed as follows: {}.", _runs("{times} {move}", ", ")),
            "Nothing leads from * to #.",
        ),
        moves(
            lambda c: f"The moves {listed(words(c.best))} take you there.",
            "It is infeasible, think about why.",
        ),
        moves(
            _in("It is enough to move {}.", _runs("{word} cell{s} {move}", " and then ")),
            "One cannot reach the goal.",
        ),
        moves(
            _in("A shorter way: {}.", _runs("{move} for {n} cell{s}", ", ")),
            "You were supposed to answer infeasible.",
        ),
        moves(
            lambda c: ". ".join(f"Go {w}" for w in words(c.best)) + ".",
            "Every path is blocked, so none exists.",
        ),
    ],
    "spelled": [
        moves(_signs(ARROWS, ""), "The correct answer is: not possible."),
        moves(_runs("{move} x{n}", ", "), "There does not exist a path."),
        moves(_in("Visit {}.", cells(", ", 0, "[{}, {}]")), "No solution."),
        moves(_in("Head {}.", _signs(COMPASS, ", then ")), "Reaching # is impossible."),
        moves(_runs("{n}{letter}", ", "), "The grid has no feasible path."),
        moves(
            _in("The path visits (row,col) {}.", cells(" → ", 1, "({},{})")),
            "Infeasible is the answer.",
        ),
    ],
    "partial": [
        _next("Move {k} must be {move}."),
        _next("A good beginning is {so_far}."),
        _next("Once you are at {cell}, turn {move}."),
        _next("{so_far} is how the path begins."),
        _next("The optimal move from {cell} is {move}, you chose {instead}."),
        _next("Replace move {k} by {move}."),
        _next("Your path is right until {cell}; there you need to go {move}."),
        _next("Consider {move} as move number {k}."),
    ],
    "oblique": [
        _path(
            lambda c: f"From # back to * the moves are {', '.join(words(c.best[::-1]))}, mirrored."
        ),
        _path(lambda c: f"Altogether {_counted(c.best)}."),
        _path(lambda c: f"The path passes through {c.cells(c.best)[len(c.best) // 2]}."),
    ],
    "innocent": [
        lambda c: c.told("location"),
        lambda c: c.told("hint"),
        lambda c: c.told("verdict"),
        _free("With {mine} you do not get a shortest path from {start} to {dest}."),
        _free(
            "You tried to go {move} from {at}. Is this cell inside the grid, and is the next one"
            " open?"
        ),
        _free("Step {k} ({move}) deserves another look. You may have confused rows and columns."),
        _free("Reading line {row} again ({shown}) will help: O is open, X is blocked."),
        _free(
            "Label the start 0, its open neighbours 1, theirs 2 and so on, until you meet the"
            " destination."
        ),
        _free(
            'Your moves {letters} end where the rules do not allow. "down" increases the row,'
            ' "right" the column.'
        ),
        _free("In a {rows}x{cols} grid a path can have many moves; you used {num}. Count again."),
        _free("{arrows} is what you did. Check every arrow against the grid."),
        _free(
            "Up and down change the row, left and right the column; you seem to mix them at move"
            " {k}."
        ),
        _free("If there is an obstacle {any} of a cell, you have to go around it."),
        _free(
            "Did you consider that a path may have to go {any} before it comes closer to the"
            " destination?"
        ),
    ],
}
