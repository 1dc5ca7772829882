"""Answer a question about a small database with a query; the database says what is wrong with it.

A query is right if its result is that of the reference query, on the database whose rows the
prompt shows and on another one of the same trade: no number that is copied passes. Only the third
level, `hint`, knows what the reference query does, and says one clause at a time.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any

from query_repair import repair
from query_results import difference, row_text
from trade_questions import Question, draw
from trades import SEEN, UNSEEN, create_table, rows_of, schemas, tables_of

from rltf_verl.envs.base import (
    CORRECT,
    INCORRECT,
    Candidate,
    Env,
    FeedbackLevel,
    GradeUnavailable,
    Splits,
    require_counts,
)
from rltf_verl.envs.pool.pool import CallFailed, shared_pool
from rltf_verl.kinds import Within
from rltf_verl.texts import counted
from rltf_verl.types import Grade, Problem

FILLS = 2
"""Databases of a trade that a query has to be right on; the first one is in the prompt."""
DEADLINE_S = 30.0
"""Of a query that `read_only` does not stop. Long, so that no busy machine fails one."""
NUM_WORKERS = 2
NUM_SAMPLES = 2
"""Rows of each table that the prompt shows."""
MOST_DRAWS = 10_000
"""Questions that are thrown away in search of a new one."""
MOST_ROWS = 60
"""Of a reference result."""
MOST_BEGINNINGS, MOST_ENDS = 30, 20
"""Places of a feedback text where a query may begin, the last ones, and where each may end."""


class TextToSql(Env):
    """The environment `text_to_sql`. `Problem.data` holds `trade`, `question`, the parts of the
    reference query, and whether the question asks for an order.

    Args:
        most_steps: clauses of a query beside SELECT and FROM, at most.
    """

    name = "text_to_sql"
    revise_templates: Mapping[str, str] | None = {"attempt": "note", "append": "plain_append"}

    def __init__(self, most_steps: Annotated[int, Within(1, 6)] = 4) -> None:
        self._most_steps = most_steps

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Different questions; half of the test split is about trades that training never sees."""
        require_counts(num_train, num_test)
        rng, seen, asked = random.Random(seed), list(schemas(SEEN)), set[str]()
        test = [self._draw(rng, i, list(schemas(UNSEEN)) if i % 2 else seen, asked)
                for i in range(num_test)]  # fmt: skip
        train = [self._draw(rng, i, seen, asked) for i in range(num_train)]
        return Splits(tuple(train), tuple(test))

    def _draw(
        self, rng: random.Random, index: int, trades: Sequence[str], asked: set[str]
    ) -> Problem:
        """One that is not in `asked`, and has an answer in each database."""
        for _ in range(MOST_DRAWS):
            trade = rng.choice(trades)
            question = draw(rng, trade, self._most_steps)
            key = f"{trade}: {question.words}"
            if key not in asked and _is_clear(trade, question):
                asked.add(key)
                facts = {"trade": trade, **question.facts}
                return Problem(self.name, index, facts, question.query)
        raise ValueError(
            f"no other question is found after {len(asked)} different ones; lower --num-train or"
            " --num-test, or raise rltf.env.most_steps"
        )

    def prompt(self, problem: Problem) -> str:
        """The tables with their first rows, and the question."""
        trade, tables = problem.data["trade"], []
        for table in tables_of(trade):
            rows = rows_of(trade, 0)[table.name][:NUM_SAMPLES]
            shown = [" | ".join("NULL" if v is None else str(v) for v in row) for row in rows]
            tables.append("\n".join([create_table(table), *(f"-- {row}" for row in shown)]))
        return (
            f"This is the SQLite database of a {trade}, with the first rows of each table:\n\n"
            + "\n\n".join(tables)
            + f"\n\n{problem.data['question']}\n\nAnswer with one SQLite query in a ```sql block,"
            " which returns the columns in the order of the question and no others."
        )

    def grade(self, problem: Problem, text: str) -> Grade:
        """Equal results on every database. `details` has what the database says to the query, on
        the first one where they differ.
        """
        query = find_query(text)
        if query is None:
            return Grade(correct=False, format_ok=False)
        for fill in range(FILLS):
            wanted = reference_rows(problem.data["trade"], fill, problem.reference)
            got = result_of(problem.data["trade"], fill, query)
            said = difference(got, wanted, problem.data["ordered"])
            if said:
                return Grade(False, True, query, details={"fill": fill, **said})
        return Grade(True, True, query)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """`location`: what the database says; `hint`: also the first thing to repair; `full`: also
        the result that is asked for.
        """
        if grade.correct or level == "verdict":
            return CORRECT if grade.correct else INCORRECT
        if grade.parsed is None:
            return "There is no SQL query in your answer. Write it in a ```sql block."
        said = [database_words(grade.details)]
        if level != "location":
            said += [repair(problem.data, grade.parsed, grade.details)]
        if level == "full":
            rows = reference_rows(problem.data["trade"], 0, problem.reference)
            said += ["The right result begins with " + "; ".join(map(row_text, rows[:3])) + "."]
        return " ".join(filter(None, said))

    def candidates(self, problem: Problem, text: str, attempt: str) -> list[Candidate]:
        """Every query in a text, up to each place where it may end."""
        return [
            Candidate(begun.start(), end, f"```sql\n{text[begun.start() : end]}\n```")
            for begun in [*_BEGIN.finditer(text)][-MOST_BEGINNINGS:]
            for end in ends(text, begun)
        ]

    def subset(self, problem: Problem) -> str:
        """Training's trades, or those that it never sees."""
        return "unseen" if problem.data["trade"] in schemas(UNSEEN) else "seen"


_BLOCK = re.compile(r"```(?:[\w+-]*\n|sql(?:ite)?\s)?(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_PROSE = re.compile(
    r"\b(?:SELECT\s|WITH\s+(?:RECURSIVE\s+)?\w+\s*(?:\([^()]*\)\s*)?AS\s*\().*?"
    r"(?=;|`|\*\*|\n\s*\n|\Z)",
    re.DOTALL,
)
_BEGIN = re.compile(r"\b(?:SELECT|WITH)\b", re.IGNORECASE)
# A mark, a line, a sentence, or a word that goes on in prose.
_END = re.compile(r"[;`\"”]|\n|\.(?=\s|\Z)|\s(?:instead|without|and|to|so|because)\b|\*\*|\Z")
_ANY_CASE = re.compile(_PROSE.pattern, re.DOTALL | re.IGNORECASE)


def ends(text: str, begun: re.Match[str]) -> list[int]:
    """Where a query may end that begins there."""
    return [mark.start() for mark in islice(_END.finditer(text, begun.end()), MOST_ENDS)]


def find_query(text: str) -> str | None:
    """The last code block, one with a query if there is such; without a block the last words in
    prose that are a query, in capitals if there are such. None: no query.

    >>> find_query("You want this:\\n```sql\\nSELECT 1;\\n```\\nIt selects one.")
    'SELECT 1'
    >>> find_query("Select what you like: SELECT name FROM cars; it lists the names.")
    'SELECT name FROM cars'
    """
    blocks = [block.strip() for block in _BLOCK.findall(text) if block.strip()]
    if blocks:
        queries = [block for block in blocks if _ANY_CASE.search(block)]
        return str((queries or blocks)[-1]).rstrip("; \n\t") or None
    begun = _PROSE.findall(text) or _ANY_CASE.findall(text)
    return str(begun[-1]).strip() if begun else None


def result_of(trade: str, fill: int, query: str) -> Mapping[str, Any]:
    """What the database says: `rows`, or an `error`. Raises GradeUnavailable."""
    try:
        pool = shared_pool("read_only", NUM_WORKERS)
        found: dict[str, Any] = pool.call("run", trade, fill, query, deadline_s=DEADLINE_S)
    except CallFailed as error:
        if str(error).startswith("no grader process"):
            raise GradeUnavailable(f"no query can be tried: {error}") from None
        return {"error": "the query ran too long"}
    return found


@lru_cache(10_000)
def reference_rows(trade: str, fill: int, query: str) -> list[list[Any]]:
    """The rows that are asked for. Raises GradeUnavailable."""
    found = result_of(trade, fill, query)
    if "rows" not in found:
        raise GradeUnavailable(f"the reference query {query!r} fails: {found['error']}")
    return list(found["rows"])


def _is_clear(trade: str, question: Question) -> bool:
    """The databases' results differ, and have a few rows and a value in the first one; in one of
    them rows tie, if the question speaks of ties.
    """
    results = [reference_rows(trade, fill, question.query) for fill in range(FILLS)]
    if not all(0 < len(rows) <= MOST_ROWS and rows[0] != [None] for rows in results):
        return False
    if question.ties and all(len(rows) == 1 for rows in results):
        return False
    first = {"columns": question.select, "rows": results[0]}
    return bool(difference(first, results[1], ordered=False))


def database_words(facts: Mapping[str, Any]) -> str:
    """Error, numbers of rows and columns, order, first wrong row."""
    if "error" in facts:
        return f"The database says: {facts['error']}."
    rows, columns = facts["rows"], facts["columns"]
    if facts["wrong"] == "columns":
        return (
            f"Your query returns {counted(columns, 'column')}, and the question asks for"
            f" {facts['wanted_columns']}."
        )
    if facts["wrong"] == "order":
        return f"Your {rows} rows are right, but not in the order that the question asks for."
    other = " in a database with other rows" if facts["fill"] else ""
    said = f"Your query returns {counted(rows, 'row')}{other}, and {facts['wanted_rows']} should be"
    said += f" there. Of yours {facts['right']} {'is' if facts['right'] == 1 else 'are'} right."
    wrong = facts["extra"]
    return said + (f" The first wrong one is {row_text(wrong[0])}." if wrong else "")
