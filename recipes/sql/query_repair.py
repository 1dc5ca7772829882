"""What to repair in a wrong query, in the order in which it is read; never the query.

These words know the clauses of the reference query; the database's own words do not. They name two
clauses at most, since there is one more answer; and what is right, because a small model that is
told to leave out LIMIT leaves out the order too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from trades import Column, Table, tables_of

_DATES = "dates are texts like '2024-05-31': compare texts, or take strftime('%Y', column)"
FOREIGN = {
    r"\b(year|month|day|extract|date_part|date_trunc|to_char|date_format|datepart)\s*\(": _DATES,
    r"\b(interval|curdate|current_date|getdate)\b": _DATES,
    r"\b(concat)\s*\(": "texts are joined with ||",
    r"\b(top|fetch)\b": "the number of rows is LIMIT at the end",
    r"\b(ilike)\b": "LIKE ignores case already",
    r"\b(isnull|if|nvl)\s*\(": "a missing value is tested with IS NULL",
}
"""What other databases have, and what SQLite has in its place."""
CLAUSES = r"\b(from|where|group\s+by|having|order\s+by|limit)\b"


@dataclass(frozen=True)
class Wrong:
    """A query that is wrong, beside the clauses of the reference query."""

    data: Mapping[str, Any]
    facts: Mapping[str, Any]
    text: str
    """The query in small letters, without what is in quotation marks."""
    quoted: tuple[str, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the trade."""
        return tables_of(self.data["trade"])

    @property
    def used(self) -> list[Table]:
        """Those that the query reads, in a subquery too."""
        words = set(re.findall(r"\w+", self.clause("from")))
        return [table for table in self.tables if table.name in words]

    def clause(self, name: str) -> str:
        """A clause of the query, from its word to the next one; empty: it has none."""
        parts = re.split(CLAUSES, self.text)
        words = [re.sub(r"\s+", " ", part) for part in parts]
        found = [
            after for word, after in zip(words[1::2], words[2::2], strict=True) if word == name
        ]
        return " ".join(found) if name != "select" else words[0]

    def column(self, name: str) -> tuple[Table, Column]:
        """Table and column of `table.column`."""
        at, _, rest = name.partition(".")
        table = next(table for table in self.tables if table.name == at)
        return table, next(column for column in table.columns if column.name == rest)


MOST_CLAUSES = 2
KEEP = "Keep the rest of your query."


def repair(data: Mapping[str, Any], query: str, facts: Mapping[str, Any]) -> str:
    """A few sentences; empty if nothing is known.

    Args:
        data: of the problem; its clauses are those of `Question.facts`.
        query: the wrong one.
        facts: what the database says to it (`query_results.difference`).
    """
    quoted = tuple(re.findall(r"'([^']*)'", query))
    text = re.sub(r"'[^']*'", "''", query).lower()
    wrong = Wrong(data, facts, text, quoted)
    if "error" in facts and (said := _error(wrong)):
        return f"{said} {KEEP}"
    found = [said for look in LOOKS if (said := look(wrong))] or [*filter(None, [_dates(wrong)])]
    return " ".join([*found[:MOST_CLAUSES], KEEP] if 0 < len(found) <= MOST_CLAUSES else found[:2])


def _error(wrong: Wrong) -> str:
    said = str(wrong.facts["error"])
    if found := re.match(r"no such column: (.+)", said):
        return _no_column(wrong, found[1].strip('"'))
    if said.startswith("no such table"):
        return f"The tables are {_listed([table.name for table in wrong.tables])}."
    if found := re.match(r"ambiguous column name: (\w+)", said):
        at = [table.name for table in wrong.used if table.column(found[1])]
        return f"Several tables have it: write {_listed([f'{t}.{found[1]}' for t in at], 'or')}."
    if re.search(r"(\bin|[=<>])\s*select\b", wrong.text):
        return "A query within the query stands in parentheses: (SELECT …)."
    for pattern, instead in FOREIGN.items():
        if used := re.search(pattern, wrong.text):
            return f"SQLite has no {used[1].upper()}: {instead}."
    if "misuse of aggregate" in said:
        return "WHERE comes before the rows are counted: use HAVING, or a subquery."
    if "one statement" in said:
        return "Write one query, and one only."
    return _not_sqlite(wrong, said)


def _not_sqlite(wrong: Wrong, said: str) -> str:
    """The clause with the word at which SQLite gave up."""
    found = re.match(r'near "(.+)": syntax error', said)
    names = ("select", "from", "where", "group by", "having", "order by", "limit")
    at = [name for name in names if found and found[1].lower() in wrong.clause(name)]
    if found is None or len(at) != 1:  # a word of several clauses says nothing
        return ""
    return f"What is not SQLite is at {found[1]}, in the part {at[0].upper()}."


def _no_column(wrong: Wrong, name: str) -> str:
    """The table that has the column, or the column that people call so."""
    last = name.rpartition(".")[2]
    holders = [table for table in wrong.tables if table.column(last)]
    if not holders:
        return _like_it(wrong, last)
    asked = [table for table in holders if table.name in wrong.data["tables"]]
    table = (asked or holders)[0]
    said = f"The column {last} is in the table {table.name}"
    if table in wrong.used:
        return f"{said}: write {table.name}.{last}, or the name that you give that table."
    if table.name == wrong.data["tables"][0]:
        return f"{said}: FROM {table.name}."
    return f"{said}. {_joined(wrong, table.name)}".strip()


def _like_it(wrong: Wrong, name: str) -> str:
    """The column whose name, or what people call it, is nearest; else all columns."""
    called = {
        word: (table, column)
        for table in (*wrong.tables, *wrong.used)  # of two columns of a name the latter counts
        for column in table.columns
        for word in (column.label.replace(" ", "_"), column.name)
    }
    near = get_close_matches(name.lower(), called, 1, 0.6)
    if near:
        table, column = called[near[0]]
        return f"The {column.label} is the column {table.name}.{column.name}."
    return " ".join(_columns_of(table) for table in wrong.used or wrong.tables)


def _columns_of(table: Table) -> str:
    return f"The columns of {table.name} are {_listed([c.name for c in table.columns])}."


def _joined(wrong: Wrong, name: str) -> str:
    """The key to join a table."""
    found = next((join for join in wrong.data["joins"] if f" {name} " in join), "")
    return f"Join it with {found.partition(' ON ')[2]}." if found else ""


def _listed(words: Sequence[str], last: str = "and") -> str:
    head, tail = words[:-1], words[-1:]
    return f" {last} ".join(filter(None, [", ".join(head), *tail]))


def _select(wrong: Wrong) -> str:
    """Number, names and functions of the selected columns."""
    data, clause = wrong.data, wrong.clause("select")
    plain = [name for name in data["select"] if "(" not in name]
    known = all(re.search(rf"\b{name.partition('.')[2]}\b", clause) for name in plain)
    calls = [name.partition("(")[0].lower() for name in data["select"] if "(" in name]
    if wrong.facts.get("wrong") != "columns" and known and all(c in clause for c in calls):
        return ""
    asked = [
        f"the {label} ({name})" if "(" not in name else f"the {label} ({name.partition('(')[0]})"
        for label, name in zip(data["asked"], data["select"], strict=True)
    ]
    return f"Return {_listed(asked)}, and no other column."


def _null(wrong: Wrong) -> str:
    for name, test in wrong.data["where"]:
        if " NULL" in test and " null" not in wrong.text.replace("= null", ""):
            known = "IS NOT NULL" if "NOT" in test else "IS NULL"
            return f"A missing value is NULL, and nothing equals it: use {known} on {name}."
    return ""


def _stored(wrong: Wrong) -> str:
    """A text that the query looks for and no row has."""
    for name, test in wrong.data["where"]:
        column = wrong.column(name)[1]
        wanted = re.search(r"'([^']*)'", test)
        there = re.search(rf"\b{column.name.lower()}\b", wrong.clause("where"))
        if column.kind == "word" and there and wanted and wanted[1] not in wrong.quoted:
            values = _listed([f"'{value}'" for value in column.values], "or")
            return f"What {name} holds is {values}: compare with one of these, written so."
    return ""


def _tables(wrong: Wrong) -> str:
    data = wrong.data
    for name in data["tables"]:
        if name not in [table.name for table in wrong.used]:
            return f"You need the table {name}. {_joined(wrong, name)}".strip()
    extra = [table.name for table in wrong.used if table.name not in data["mentioned"]]
    return f"The table {extra[0]} is not needed: leave it out." if extra else ""


def _where(wrong: Wrong) -> str:
    """A condition that is missing."""
    for name, _ in wrong.data["where"]:
        if not re.search(rf"\b{name.partition('.')[2].lower()}\b", wrong.clause("where")):
            label = wrong.column(name)[1].label
            return f"WHERE needs a condition on the {label}, which is the column {name}."
    return ""


def _too_many(wrong: Wrong) -> str:
    """A condition that nobody asks for."""
    known = {name.partition(".")[2] for name, _ in wrong.data["where"]}
    columns = {c.name for t in wrong.tables for c in t.columns if c.kind not in ("key", "parent")}
    tested = re.findall(r"(\w+)\s*(?:=|<|>|!|is\b|like\b|in\b|between\b)", wrong.clause("where"))
    extra = next((name for name in tested if name in columns - known), "")
    return f"The question has no condition on {extra}: leave it out." if extra else ""


def _group(wrong: Wrong) -> str:
    group, clause = wrong.data["group"], wrong.clause("group by")
    if group and not re.search(rf"\b{group.partition('.')[2].lower()}\b", clause):
        return f"One row is asked for each {wrong.column(group)[1].label}: GROUP BY {group}."
    if wrong.data["having"] and not wrong.clause("having"):
        return "Groups are left out by a condition on their number, in HAVING."
    return "Leave out GROUP BY: it makes one row of many." if clause and not group else ""


def _distinct(wrong: Wrong) -> str:
    there, wanted = "distinct" in wrong.text, wrong.data["distinct"]
    if wanted and not there and not wrong.clause("group by"):
        return "Each value is asked for once: SELECT DISTINCT."
    return "Rows count as often as they are there: leave out DISTINCT." if there > wanted else ""


def _limit(wrong: Wrong) -> str:
    limit, clause = wrong.data["limit"], wrong.clause("limit")
    if limit and not clause:
        return f"The question asks for the first {limit} rows: LIMIT."
    if clause and not limit:
        if not wrong.data["nested"]:
            return "Leave out LIMIT: all rows are asked for."
        return "LIMIT leaves out rows that tie."
    return ""


def _order(wrong: Wrong) -> str:
    order, clause = wrong.data["order"], wrong.clause("order by")
    if not order:
        return ""
    (first, _, down), second = order.split(", ")[0].partition(" "), order.split(", ")[1]
    columns = [name.partition(".")[2].lower() for name in (first, second)]
    there = re.search(rf"\b{columns[0]}\b(.*?),(.*?)\b{columns[1]}\b(.*)", clause, re.DOTALL)
    if there and ("desc" in there[1]) == bool(down) and "desc" not in there[2] + there[3]:
        return ""
    direction = "from high to low (DESC)" if down else "from low to high (ASC)"
    return f"ORDER BY {first} {direction}, then by {second}."


def _dates(wrong: Wrong) -> str:
    for name, test in wrong.data["where"]:
        if wrong.column(name)[1].kind == "date" and " NULL" not in test:
            said = f"{name} holds texts like '2024-05-31'"
            if "%Y-%m" in test:
                return f"{said}: strftime('%Y-%m', {name}) is year and month, a text too."
            if "%Y" in test:
                return f"{said}: strftime('%Y', {name}) is the year, a text too."
            return f"{said}: compare it with the day as such a text."
    return ""


def _nested(wrong: Wrong) -> str:
    """The subquery that the question needs."""
    if not wrong.data["nested"]:
        return ""
    name, test = wrong.data["where"][0]
    function = re.search(r"(MIN|MAX)\((\w+)\)", test)
    if function is None:
        other = wrong.data["mentioned"][-1]
        return f"Ask for those whose {name} is NOT IN a subquery on {other}."
    if function[1].lower() + "(" in wrong.text:
        return ""
    return f"Compare {name} with a subquery that selects {function[0]}."


def _sign(wrong: Wrong) -> str:
    words = {">": "above is >", "<": "below is <", ">=": "at least is >=", "<=": "at most is <="}
    for name, test in wrong.data["where"]:
        column, sign = wrong.column(name)[1], re.search(r"[<>]=?", test)
        known = sign and re.search(rf"{column.name.lower()}\s*{sign[0]}\s*[\d(]", wrong.text)
        there = re.search(rf"\b{column.name.lower()}\b", wrong.clause("where"))
        if sign and there and not known and column.kind in ("number", "amount"):
            return f"Look at the condition on the {column.label}: {words[sign[0]]}."
    return ""


LOOKS: tuple[Callable[[Wrong], str], ...] = (
    *(_select, _null, _stored, _tables, _where, _nested, _group),
    *(_distinct, _limit, _too_many, _sign, _order),
)
"""In the order in which a query is read."""
