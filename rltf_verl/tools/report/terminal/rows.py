"""What an episode trains, for a terminal: a line for each part of a row, its tokens in colour where
they are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from rltf_verl.runlog.turns import Record
from rltf_verl.texts import printable
from rltf_verl.tools.report.row_words import rows_in_words

MARKS = str.maketrans({"\n": "↵\n", "\t": "⇥\t"})
UP, DOWN, CONTEXT = "white on blue", "black on dark_orange", "dim"
KEY = (
    "tokens: struck through = masked, dim = context, blue = advantage above 0, orange and"
    " underlined = below 0"
)


def show_rows(record: Record, out: Console) -> None:
    """The rows of an episode; their tokens only on a terminal, since a file would repeat the
    attempts.
    """
    rows = record.get("rows", [])
    for k, (row, words) in enumerate(
        zip(rows, rows_in_words(rows, record["turns"]), strict=True), start=1
    ):
        out.print(Text(f"row {k}: {words['title']}", "bold"), soft_wrap=True)
        for part in words["parts"]:
            out.print(_line(part), soft_wrap=True)
        if "tokens" in row and out.is_terminal:
            out.print(coloured(row["tokens"]), soft_wrap=True)
    if out.is_terminal and any("tokens" in row for row in rows):
        out.print(Text(KEY, "dim"), soft_wrap=True)


def coloured(tokens: Mapping[str, Sequence[Any]]) -> Text:
    """The text of a row's tokens; line ends and tabs have a mark, so that theirs can be seen."""
    styles = map(_style, tokens["role"], tokens["advantage"], tokens["masked"])
    text = Text()
    for style, pieces in groupby(
        zip(styles, tokens["text"], strict=True), key=lambda pair: pair[0]
    ):
        text.append(printable("".join(piece for _, piece in pieces).translate(MARKS)), style)
    return text


def _style(role: int, advantage: float, masked: int) -> str:
    if role < 0:
        return CONTEXT
    style = UP if advantage > 0 else f"{DOWN} underline" if advantage < 0 else ""
    return f"{style} strike".strip() if masked else style


def _line(part: Mapping[str, Any]) -> Text:
    role, what = printable(part["role"]), part["what"]
    numbers = (
        f"{part['tokens']} tokens",
        f"advantage {part['advantage'] + 0.0:+.4g}",
        f"masked {part['masked']:.1%}",
        f"log-prob {part['log_prob']:.4g}",
        f"gap {part['gap'] + 0.0:+.4g}",
    )
    return Text.assemble((f"  {role:<9}", "bold"), f"{what} · {' · '.join(numbers)}")
