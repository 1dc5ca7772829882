"""One query on one small database, within limits. Runs in a grader process (`envs.pool`), because
no limit of SQLite holds a single call that computes for minutes.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from math import isfinite
from typing import Any

from trades import create_table, rows_of, tables_of

from rltf_verl.texts import split_words

MAX_QUERY = 4000
"""Characters of a query."""
MAX_ROWS, MAX_CHARS = 500, 50_000
"""Rows of a result, and characters in all of them."""
MAX_CPU_S = 0.5
MAX_STEPS = 2_000_000
"""Instructions of SQLite's virtual machine."""
BETWEEN = 100
"""Instructions between two looks at the limits."""
MAX_BYTES = 32 << 20
"""Of SQLite's memory. It holds for the whole process: one more reason for another one."""
MAX_VALUE, MAX_PATTERN = 100_000, 200
"""Bytes of a value, and of the pattern of LIKE, whose time grows with both."""

FUNCTIONS = frozenset(
    split_words(
        "abs avg coalesce count cume_dist date datetime dense_rank first_value glob group_concat"
        " ifnull iif instr julianday lag last_value lead length like lower ltrim max min nth_value"
        " ntile nullif percent_rank rank replace round row_number rtrim strftime substr substring"
        " sum time total trim typeof unixepoch upper"
    )
)
"""No others: `printf` and `zeroblob` fill a memory, and a call cannot be interrupted."""
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def run(trade: str, fill: int, query: str) -> dict[str, Any]:
    """The result of a query that may hold anything.

    Returns:
        `rows` and the names of the `columns`, or `error`: what the database says.
    """
    if len(query) > MAX_QUERY:
        return {"error": f"the query has more than {MAX_QUERY} characters"}
    connection = _filled(trade, fill)
    try:
        cursor = connection.execute(query)
        if cursor.description is None:
            return {"error": "the query returns no table"}
        return {"columns": [str(c[0]) for c in cursor.description], "rows": _rows(cursor)}
    except MemoryError:
        return {"error": "out of memory"}
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        said = "the query ran too long" if str(error) == "interrupted" else str(error)
        return {"error": said[:300]}
    finally:
        connection.close()


def _filled(trade: str, fill: int) -> sqlite3.Connection:
    """The database, of which nothing but reading is left."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    rows = rows_of(trade, fill)
    for table in tables_of(trade):
        connection.execute(create_table(table))
        marks = ", ".join("?" * len(table.columns))
        connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows[table.name])
    for setting in ("query_only = 1", "temp_store = MEMORY", f"hard_heap_limit = {MAX_BYTES}"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    if hasattr(connection, "setlimit"):  # Python 3.11
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN)
    connection.text_factory = lambda read: read.decode(errors="replace")
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(_limit(), BETWEEN)
    return connection


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Reading alone; `sqlite_master` is no table of the trade."""
    allowed = action in _ALLOWED
    if action == sqlite3.SQLITE_READ:
        allowed = not str(first).startswith("sqlite_")
    elif action == sqlite3.SQLITE_FUNCTION:
        allowed = str(second).lower() in FUNCTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _limit() -> Callable[[], int]:
    """True from the moment on at which a query has had its share."""
    start, steps = time.process_time(), 0

    def over() -> int:
        nonlocal steps
        steps += BETWEEN
        return steps > MAX_STEPS or time.process_time() - start > MAX_CPU_S

    return over


def _rows(cursor: sqlite3.Cursor) -> list[list[Any]]:
    rows: list[list[Any]] = []
    chars = 0
    for row in cursor:
        rows.append([_plain(value) for value in row])
        chars += sum(len(v) for v in row if isinstance(v, (str, bytes)))
        if len(rows) > MAX_ROWS or chars > MAX_CHARS:
            raise ValueError(f"the result has more than {MAX_ROWS} rows or {MAX_CHARS} characters")
    return rows


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bytes):
        return f"x'{value[:99].hex()}'"
    return str(value) if isinstance(value, float) and not isfinite(value) else value
