"""Are two results the same? Rows count as often as they are there, numbers within rounding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

Row = Sequence[Any]
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


def difference(got: Mapping[str, Any], wanted: Sequence[Row], ordered: bool) -> dict[str, Any]:
    """What is wrong with a result; empty if nothing is.

    Args:
        got: what `read_only.run` returned.
        wanted: the rows that are asked for, at least one.
        ordered: the order of the rows is asked for too.

    Returns:
        The database's `error`; or the numbers of rows and columns, what is `wrong` (`columns`,
        `rows` or `order`), the number of `right` rows, and the first one that is too many.
    """
    if "error" in got:
        return {"error": got["error"]}
    rows, columns = got["rows"], len(got["columns"])
    facts = {"rows": len(rows), "wanted_rows": len(wanted), "columns": columns}
    facts |= {"wanted_columns": len(wanted[0])}
    if columns != len(wanted[0]):
        return facts | {"wrong": "columns"}
    if same_rows(rows, wanted):
        return {}
    if same_rows(sorted(rows, key=_key), sorted(wanted, key=_key)):
        return facts | {"wrong": "order"} if ordered else {}
    left = Counter(map(_key, wanted))
    extra = [row for row in rows if not _take(left, _key(row))]
    return facts | {"wrong": "rows", "right": len(rows) - len(extra), "extra": extra[:1]}


def same_rows(some: Sequence[Row], others: Sequence[Row]) -> bool:
    """Row by row and column by column. A number may be there as its text."""
    return len(some) == len(others) and all(
        _same(one, other)
        for row, other_row in zip(some, others, strict=True)
        for one, other in zip(row, other_row, strict=True)
    )


def _same(one: Any, other: Any) -> bool:
    a, b = _value(one), _value(other)
    if isinstance(a, float) and isinstance(b, float):
        return isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    return bool(a == b)


def _value(value: Any) -> Any:
    if isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return float(value)
    return value


def _key(row: Row) -> tuple[str, ...]:
    values = map(_value, row)
    return tuple(f"{v:.4f}" if isinstance(v, float) else repr(v) for v in values)


def _take(left: Counter[Any], row: Any) -> bool:
    left[row] -= 1
    return left[row] >= 0


def row_text(row: Row) -> str:
    """A row as people read it."""
    return f"({', '.join('NULL' if v is None else str(v)[:40] for v in row)})"
