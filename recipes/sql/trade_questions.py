"""Questions about a trade, each from the same parts as the query that answers it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from trades import Column, Table, tables_of

from rltf_verl.texts import split_words

AGGREGATES = {"total": "SUM", "average": "AVG", "highest": "MAX", "lowest": "MIN"}


@dataclass(frozen=True)
class Condition:
    """What rows must have."""

    table: Table
    column: Column
    words: str
    """`whose city is Leeds`, without `whose`."""
    sql: str


@dataclass
class Question:
    """A question and its query, clause by clause."""

    words: str = ""
    select: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """What people call the selected columns."""
    tables: list[str] = field(default_factory=list)
    """The table that the question is about, then those that are joined to it."""
    joins: list[str] = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    group: str = ""
    having: str = ""
    order: str = ""
    limit: int = 0
    distinct: bool = False
    ties: bool = False
    """Rows that tie count."""
    inner: list[str] = field(default_factory=list)
    """Tables of a subquery."""

    @property
    def query(self) -> str:
        """The query."""
        parts = [f"SELECT {'DISTINCT ' * self.distinct}{', '.join(self.select)}"]
        parts += [f"FROM {self.tables[0]}", *self.joins]
        parts += [f"WHERE {' AND '.join(c.sql for c in self.where)}"] if self.where else []
        parts += [f"{word} {text}" for word, text in self._rest() if text]
        query = " ".join(parts)
        return query if self.joins else query.replace(f"{self.tables[0]}.", "")

    def _rest(self) -> list[tuple[str, str]]:
        limit = str(self.limit) if self.limit else ""
        order = [("ORDER BY", self.order), ("LIMIT", limit)]
        return [("GROUP BY", self.group), ("HAVING", self.having), *order]

    @property
    def facts(self) -> dict[str, Any]:
        """What a problem keeps: the words, and what `query_repair` may say of the clauses."""
        query = self.query
        return {
            "question": self.words,
            "ordered": bool(self.order),
            "select": self.select,
            "asked": self.asked,
            "tables": self.tables,
            "mentioned": [*self.tables, *self.inner],
            "joins": self.joins,
            "where": [[f"{c.table.name}.{c.column.name}", c.sql] for c in self.where],
            "group": self.group,
            "having": self.having,
            "order": self.order,
            "limit": self.limit,
            "distinct": self.distinct,
            "nested": "(SELECT" in query,
        }

    @property
    def steps(self) -> int:
        """Clauses beside SELECT and FROM."""
        rest = sum(1 for _, text in self._rest() if text)
        return len(self.joins) + len(self.where) + rest + self.distinct


def draw(rng: random.Random, trade: str, most_steps: int) -> Question:
    """A question about a trade, of so many clauses at most."""
    while True:
        tables = tables_of(trade)
        form = rng.choice(_FORMS)
        question = form(_Draw(rng, trade, rng.choice(tables)))
        if question is not None and question.steps <= most_steps:
            return question


@dataclass
class _Draw:
    """Draws the parts of a question about one table."""

    rng: random.Random
    trade: str
    table: Table

    def condition(self) -> Condition | None:
        """On a column of the table, or of one that its rows belong to."""
        parents = self.table.of_kind("parent")
        if parents and self.rng.random() < SHARE_PARENT:
            parent = self.rng.choice(parents)
            table = self.parent(parent)
            columns, owner = table.of_kind("word", "number"), f"{parent.label}'s "
        else:
            table, owner = self.table, ""
            columns = table.of_kind("word", "number", "amount", "date")
        if not columns:
            return None
        column = self.rng.choice(columns)
        words, sql = _test(self.rng, column, f"{table.name}.{column.name}")
        return Condition(table, column, f"{owner}{column.label} is {words}", sql)

    def parent(self, column: Column) -> Table:
        """The table whose key is in this column."""
        return next(t for t in tables_of(self.trade) if t.name == column.values[0])

    def about(self, most: int = 2) -> tuple[Question, str]:
        """A question with drawn conditions, and the words for its rows."""
        drawn = [self.condition() for _ in range(self.rng.randint(0, most))]
        where = list({c.column: c for c in drawn if c is not None}.values())
        question = Question(tables=[self.table.name], where=where)
        for condition in where:
            self.join(question, condition.table)
        said = " and ".join(f"whose {condition.words}" for condition in where)
        return question, f"{self.table.name} {said}".strip()

    def join(self, question: Question, table: Table) -> None:
        """Join a table that rows belong to, once."""
        if table.name in question.tables:
            return
        key = next(c for c in self.table.of_kind("parent") if c.values[0] == table.name)
        question.tables.append(table.name)
        question.joins.append(
            f"JOIN {table.name} ON {self.table.name}.{key.name} = {table.name}.{table.key}"
        )

    def column(self, *kinds: str, nullable: bool = False) -> Column | None:
        """One of the table's columns."""
        found = [c for c in self.table.of_kind(*kinds) if nullable or not c.nullable]
        return self.rng.choice(found) if found else None

    @property
    def identity(self) -> Column:
        """What tells rows apart: the name, else the key."""
        return (self.table.of_kind("name") or self.table.of_kind("key"))[0]

    def name(self, column: Column) -> str:
        """The column in SQL."""
        return f"{self.table.name}.{column.name}"


def _test(rng: random.Random, column: Column, name: str) -> tuple[str, str]:
    """(words after `is`, SQL) of a condition."""
    if column.nullable and rng.random() < SHARE_NULL_TEST:
        missing = rng.random() < 0.5
        return ("missing", f"{name} IS NULL") if missing else ("not missing", f"{name} IS NOT NULL")
    if column.kind == "word":
        at = rng.randrange(len(column.values))
        return column.spoken[at], f"{name} = '{column.values[at]}'"
    if column.kind == "date":
        return _date_test(rng, name)
    low, high = map(float, column.values)
    value = rng.randint(int(low) + 1, int(high) - 1)
    words, sign = rng.choice(
        (("above", ">"), ("below", "<"), ("at least", ">="), ("at most", "<="))
    )
    return f"{words} {value}", f"{name} {sign} {value}"


def _date_test(rng: random.Random, name: str) -> tuple[str, str]:
    year, month = rng.choice((2023, 2024)), rng.randint(2, 11)
    kind = rng.choice(("year", "month", "before", "after"))
    if kind == "year":
        return f"in {year}", f"strftime('%Y', {name}) = '{year}'"
    if kind == "month":
        return f"in {MONTHS[month - 1]} {year}", f"strftime('%Y-%m', {name}) = '{year}-{month:02}'"
    day = f"{year}-{month:02}-{rng.randint(1, 28):02}"
    return f"{kind} {day}", f"{name} {'<' if kind == 'before' else '>'} '{day}'"


def _list(draw: _Draw) -> Question | None:
    question, rows = draw.about()
    columns = draw.rng.sample(draw.table.columns, 3)
    columns = [c for c in columns if c.kind != "parent"][: draw.rng.randint(1, 2)]
    return _selecting(question, draw, columns, f"List the {{}} of the {rows}.")


def _selecting(
    question: Question, draw: _Draw, columns: list[Column], words: str
) -> Question | None:
    if not columns:
        return None
    question.select = [draw.name(c) for c in columns]
    question.asked = [c.label for c in columns]
    question.words = words.format(" and the ".join(question.asked))
    return question


def _distinct(draw: _Draw) -> Question | None:
    question, rows = draw.about()
    column = draw.column("word")
    question.distinct = True
    return column and _selecting(
        question, draw, [column], f"List every {{}} of the {rows}, each once."
    )


def _count(draw: _Draw) -> Question | None:
    question, rows = draw.about()
    question.select, question.asked = ["COUNT(*)"], [f"number of {draw.table.name}"]
    question.words = f"How many {rows} are there?"
    return question if question.where else None


def _aggregate(draw: _Draw) -> Question | None:
    question, rows = draw.about()
    column = draw.column("number", "amount", nullable=True)
    if column is None:
        return None
    word, function = draw.rng.choice(list(AGGREGATES.items()))
    question.select, question.asked = (
        [f"{function}({draw.name(column)})"],
        [f"{word} {column.label}"],
    )
    question.words = f"What is the {word} {column.label} of the {rows}?"
    return question


def _group(draw: _Draw) -> Question | None:
    question, rows = draw.about(1)
    parents = draw.table.of_kind("parent")
    if parents and draw.rng.random() < SHARE_PARENT:
        parent = draw.rng.choice(parents)
        table, owner = draw.parent(parent), f" of the {parent.label}"
        columns = table.of_kind("name") or table.of_kind("word")
    else:
        table, owner = draw.table, ""
        columns = [c for c in table.of_kind("word") if not c.nullable]
    if not columns:
        return None
    column, number = draw.rng.choice(columns), draw.column("number", "amount", nullable=True)
    if any(condition.column == column for condition in question.where):
        return None
    if owner:
        draw.join(question, table)
    question.group = f"{table.name}.{column.name}"
    measure, said = "COUNT(*)", f"number of {draw.table.name}"
    if number is not None and draw.rng.random() < SHARE_MEASURED:
        word, function = draw.rng.choice(list(AGGREGATES.items()))
        measure, said = f"{function}({draw.name(number)})", f"{word} {number.label}"
    question.select, question.asked = [question.group, measure], [column.label, said]
    question.words = (
        f"For each {column.label}{owner}, give the {column.label} and the {said} of the {rows}."
        if measure != "COUNT(*)"
        else f"For each {column.label}{owner}, give the {column.label} and the number of {rows}."
    )
    if measure == "COUNT(*)" and draw.rng.random() < SHARE_HAVING:
        least = draw.rng.randint(2, 4)
        question.having = f"COUNT(*) >= {least}"
        question.words = f"{question.words[:-1]}, but only where that number is at least {least}."
    return question


def _highest(draw: _Draw) -> Question | None:
    column, top = draw.column("number"), draw.rng.random() < 0.5
    if column is None:
        return None
    word, function = ("highest", "MAX") if top else ("lowest", "MIN")
    name = f"(SELECT {function}({column.name}) FROM {draw.table.name})"
    test = Condition(draw.table, column, "", f"{draw.name(column)} = {name}")
    question = Question(tables=[draw.table.name], where=[test], ties=True)
    which = f"{draw.table.name} with the {word} {column.label}"
    words = f"Give the {{}} of the {which}, all of them if several tie."
    return _selecting(question, draw, [draw.identity], words)


def _ordered(draw: _Draw) -> Question | None:
    question, rows = draw.about(1)
    column, identity = draw.column("number", "amount", "date"), draw.identity
    if column is None:
        return None
    down = draw.rng.random() < 0.5
    kinds = ("latest", "earliest") if column.kind == "date" else ("highest", "lowest")
    first = kinds[0] if down else kinds[1]
    question.order = f"{draw.name(column)}{' DESC' * down}, {draw.name(identity)}"
    ties = f"with the {first} {column.label} first, and ties by {identity.label}"
    words = f"List the {{}} of the {rows}, {ties}."
    if draw.rng.random() < SHARE_LIMITED:
        question.limit = draw.rng.randint(2, 5)
        words = f"List the {{}} of the first {question.limit} {rows}, {ties}."
    columns = [identity] if draw.rng.random() < 0.5 else [identity, column]
    return _selecting(question, draw, columns, words)


def _without(draw: _Draw) -> Question | None:
    parents = draw.table.of_kind("parent")
    if not parents:
        return None
    parent = draw.rng.choice(parents)
    table = draw.parent(parent)
    asked = (table.of_kind("name") or table.of_kind("key"))[0]
    key = table.columns[0]
    inner = f"SELECT {parent.name} FROM {draw.table.name}"
    test = Condition(table, key, "", f"{table.name}.{table.key} NOT IN ({inner})")
    question = Question(tables=[table.name], where=[test], inner=[draw.table.name])
    question.select, question.asked = [f"{table.name}.{asked.name}"], [asked.label]
    question.words = f"List the {asked.label} of the {table.name} without any {draw.table.name}."
    return question


SHARE_PARENT, SHARE_NULL_TEST, SHARE_MEASURED, SHARE_HAVING, SHARE_LIMITED = 0.4, 0.4, 0.5, 0.3, 0.4
MONTHS = split_words(
    "January February March April May June July August September October November December"
)
_FORMS = (_list, _list, _list, _distinct, _count, _count, _aggregate, _aggregate)
_FORMS += (_group, _group, _highest, _ordered, _ordered, _without)
