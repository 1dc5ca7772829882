"""Questions about small databases: equal results are right, the database says what is wrong, and no
query harms the machine.
"""

import importlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.data.questions import QuestionRow
from rltf_verl.envs import make_env
from rltf_verl.envs.base import LEVELS
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.objectives.method import Method
from rltf_verl.types import Attempt, Episode, Grade, Problem, Turn
from tests.recipes.composing import program, rltf_of
from tests.recipes.hostile_sql import FAMILIES
from tests.support.effort import many
from tests.support.episode_fakes import ScriptedPolicy, text_of

FOLDER = Path(__file__).parents[2] / "recipes/sql"
ENV: Any = make_env(f"{FOLDER / 'text_to_sql.py'}:TextToSql")
text_to_sql: Any = sys.modules[type(ENV).__module__]
questions, trades = (importlib.import_module(name) for name in ("trade_questions", "trades"))


def problem_of(select: str, **clauses: Any) -> Problem:
    """About the bakery; `select` and the clauses as `trade_questions.Question` has them."""
    fields = {"tables": ["customers"], **clauses}
    question = questions.Question("Which?", [select], ["asked"], **fields)
    facts = {"trade": "bakery", **json.loads(json.dumps(question.facts))}
    return Problem("text_to_sql", 0, facts, question.query)


def words(problem: Problem, query: str, level: str) -> str:
    """The feedback on a query."""
    text = f"```sql\n{query}\n```"
    return ENV.explain(problem, text, ENV.grade(problem, text), level)


NAMES = problem_of("customers.name")
IN_ORDER = problem_of("customers.name", order="customers.name DESC, customers.customer_id")
COUNT = problem_of("COUNT(*)")
AVERAGE = problem_of("AVG(products.price)", tables=["products"])
CITIES = problem_of("customers.city", distinct=True)
JOIN = "JOIN customers ON sales.customer_id = customers.customer_id"
CUSTOMERS = trades.tables_of("bakery")[0]
IN_YORK = questions.Condition(CUSTOMERS, CUSTOMERS.column("city"), "", "customers.city = 'York'")
BY_CITY = problem_of("sales.quantity", tables=["sales", "customers"], joins=[JOIN], where=[IN_YORK])


def test_thousands_of_questions_and_four_trades_that_training_never_sees() -> None:
    rng, seen = random.Random(0), list(trades.schemas(trades.SEEN))
    drawn = [(trade := rng.choice(seen), questions.draw(rng, trade, 4).words) for _ in range(8000)]
    assert len(set(drawn)) >= 4000
    splits = ENV.build(0, 24, 16)
    unseen = set(trades.schemas(trades.UNSEEN))
    assert len(unseen) == 4
    assert not {p.data["trade"] for p in splits.train} & unseen
    assert [ENV.subset(p) for p in splits.test] == ["seen", "unseen"] * 8
    asked = [(p.data["trade"], p.data["question"]) for p in (*splits.train, *splits.test)]
    assert len(set(asked)) == len(asked)


def test_databases_have_dates_nulls_and_ties_and_differ_by_their_number() -> None:
    for trade in trades.schemas(trades.SEEN) | trades.schemas(trades.UNSEEN):
        tables, rows = trades.tables_of(trade), trades.rows_of(trade, 0)
        assert rows != trades.rows_of(trade, 1)
        assert any(table.of_kind("date") for table in tables)
        assert any(None in row for table in tables for row in rows[table.name])
        events = rows[tables[-1].name]
        assert any(len({row[i] for row in events}) < len(events) for i in range(1, len(events[0])))
        assert any(table.of_kind("parent") for table in tables)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("```sql\nSELECT 1;\n```", "SELECT 1"),
        ("```SELECT 1```", "SELECT 1"),
        ("``` sql\nSELECT 1\n```", "sql\nSELECT 1"),
        ("```sqlite\nSELECT 1", "SELECT 1"),
        ("```sql\nSELECT 1\n```\nor better\n```sql\nSELECT 2\n```", "SELECT 2"),
        ("```sql\nSELECT 1\n```\nIt returns\n```\nLeeds\n```", "SELECT 1"),
        ("Select what you need: SELECT 1; it selects one.", "SELECT 1"),
        ("You can use `SELECT 1` here.", "SELECT 1"),
        ("**SELECT 1**", "SELECT 1"),
        ("with a as (select 1) select * from a", "with a as (select 1) select * from a"),
        ("SELECT 1\n\nThis is one.", "SELECT 1"),
        ("```sql\nDROP TABLE sales\n```", "DROP TABLE sales"),
        ("With this, you are done.", None),
        ("", None),
        ("``````", None),
    ],
)
def test_the_query_is_found_in_blocks_and_in_prose(text: str, query: str | None) -> None:
    assert text_to_sql.find_query(text) == query


@pytest.mark.parametrize(
    ("problem", "query", "right"),
    [
        (NAMES, "SELECT name AS n FROM customers ORDER BY city", True),
        (NAMES, "SELECT name FROM customers LIMIT 13", False),
        (NAMES, "SELECT name FROM customers UNION ALL SELECT name FROM customers", False),
        (NAMES, "SELECT name, city FROM customers", False),
        (IN_ORDER, "SELECT name FROM customers ORDER BY 1 DESC", True),
        (IN_ORDER, "SELECT name FROM customers ORDER BY 1", False),
        (AVERAGE, "SELECT SUM(price) / COUNT(*) + 0.0000001 FROM products", True),
        (AVERAGE, "SELECT ROUND(AVG(price), 1) - 0.1 FROM products", False),
        (COUNT, "SELECT 1 * COUNT(name) FROM customers", True),
        (CITIES, "SELECT city FROM customers GROUP BY city", True),
        (CITIES, "SELECT city FROM customers", False),
    ],
)
def test_equal_results_are_right(problem: Problem, query: str, right: bool) -> None:
    assert ENV.grade(problem, f"```sql\n{query}\n```").correct is right


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The correct query should be {}.", True),
        ('You should have written "{}" instead of "SELECT 1". Sort it too.', True),
        ("Write this:\n```sql\n{}\n```\nIt counts them.", True),
        ("The answer:\n{}\n\nThink of York.", True),
        ("Leave LIMIT out: {}", True),
        ("The SELECT clause is not right. " * 40 + "Write {}", True),
        (
            "```sql\nSELECT\n  sales\n.\nquantity\n\nFROM sales\nJOIN customers\n"
            "ON sales.customer_id\n= customers.customer_id\nWHERE\n customers.city\n=\n'York'\n```",
            True,
        ),
        ("SELECT 1 is no answer. " * 40 + "SELECT the names, and count them.", False),
    ],
)
def test_feedback_that_states_the_query_is_a_leak(text: str, told: bool) -> None:
    said = text.format(BY_CITY.reference)
    assert bool(find_leaks(ENV, BY_CITY, said, f"{BY_CITY.reference} LIMIT 1")) == told


def test_what_is_copied_from_the_database_of_the_prompt_is_wrong() -> None:
    for problem in ENV.build(2, 24, 0).train:
        rows = text_to_sql.reference_rows(problem.data["trade"], 0, problem.reference)
        values = [", ".join("NULL" if v is None else repr(v) for v in row) for row in rows]
        assert not ENV.grade(problem, " UNION ALL ".join(f"SELECT {row}" for row in values)).correct


@pytest.mark.parametrize(
    ("problem", "query", "database", "repair"),
    [
        (NAMES, "SELECT nam FROM customers", "no such column: nam", "column customers.name"),
        (BY_CITY, "SELECT quantity FROM sales WHERE city = 'York'", "no such column: city",
         "sales.customer_id = customers.customer_id"),
        (NAMES, "SELECT name FROM clients", "no such table: clients", "customers, products and"),
        (NAMES, "SELECT name FROM customers LIMIT 5", "returns 5 rows, and 14", "Leave out LIMIT"),
        (NAMES, "SELECT name, city FROM customers", "2 columns", "(customers.name)"),
        (NAMES, "SELECT name FROM customers WHERE YEAR(joined) = 2023", "no such function: YEAR",
         "strftime"),
        (NAMES, "SELECT name FROM customers WHERE city IN SELECT 1", "syntax error", "parentheses"),
        (NAMES, "SELECT name FROM customers WHERE city IS Leeds York", "syntax error", "WHERE"),
        (IN_ORDER, "SELECT name FROM customers LIMIT 5", "rows", "leave out LIMIT"),
        (IN_ORDER, "SELECT name FROM customers LIMIT 5", "rows", "from high to low"),
        (IN_ORDER, "SELECT name FROM customers", "order", "from high to low"),
        (CITIES, "SELECT city FROM customers", "of yours", "DISTINCT"),
        (BY_CITY, f"SELECT quantity FROM sales {JOIN} WHERE city = 'york'", "0 rows", "'York'"),
        (BY_CITY, f"SELECT quantity FROM sales {JOIN}", "returns 40 rows", "customers.city"),
        (BY_CITY, "SELECT quantity FROM sales", "returns 40 rows", "the table customers"),
    ],
)  # fmt: skip
def test_the_database_says_what_is_wrong_and_then_what_to_repair(
    problem: Problem, query: str, database: str, repair: str
) -> None:
    said = {level: words(problem, query, level) for level in LEVELS}
    assert database.lower() in said["location"].lower()
    assert said["hint"].startswith(said["location"])
    assert repair.lower() in said["hint"][len(said["location"]) :].lower()
    assert database not in said["verdict"]
    assert all(problem.reference not in text for text in said.values())


CHILD = """
import json, os, resource, sys
sys.path[:0] = sys.argv[1:3]
import read_only
from tests.recipes.hostile_sql import FAMILIES
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_only.run("bakery", 0, "SELECT 1")
before, results = used(), {}
for family, queries in FAMILIES.items():
    results[family] = [read_only.run("bakery", 0, query) for query in queries]
print(json.dumps({"results": results, "kilobytes": used() - before, "files": os.listdir()}))
"""
LIMITED = hasattr(sqlite3.Connection, "setlimit")


@pytest.fixture(scope="module")
def harm(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What all hostile queries did to a process and its folder."""
    if not LIMITED:
        pytest.skip("Python 3.10 cannot limit a value's length: the pool's deadline ends the call")
    root = FOLDER.parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(FOLDER), str(root)],
        cwd=tmp_path_factory.mktemp("folder"), env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(ended.stdout)


def test_no_file_and_little_memory_comes_of_hundreds_of_hostile_queries(
    harm: Mapping[str, Any],
) -> None:
    assert len({query for queries in FAMILIES.values() for query in queries}) >= 300
    assert harm["files"] == []
    assert harm["kilobytes"] < 200_000


@pytest.mark.parametrize("family", ["writes", "files", "settings", "schema", "endless", "several"])
def test_hostile_queries_have_no_result(harm: Mapping[str, Any], family: str) -> None:
    found = zip(FAMILIES[family], harm["results"][family], strict=True)
    assert [query for query, result in found if "error" not in result] == []


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_hostile_query_costs_an_attempt(family: str) -> None:
    for query in FAMILIES[family][:: max(1, len(FAMILIES[family]) // many(80))]:
        grade = ENV.grade(BY_CITY, f"```sql\n{query}\n```")
        assert (grade.correct, grade.error) == (False, None)
        assert words(BY_CITY, query, "hint")
    assert ENV.grade(NAMES, "SELECT name FROM customers").correct


class FakeSampler:
    """Answers with a query without rows; with the reference once the feedback says so."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.references = {row.messages[-1]["content"]: row.problem.reference for row in rows}
        self.num_asked = 0

    def answers(
        self, chats: Sequence[Any], seeds: Sequence[int], temperature: float
    ) -> Iterator[tuple[int, str]]:
        for at, chat in enumerate(chats):
            self.num_asked += 1
            hinted = "should be there" in chat[-1]["content"]
            yield at, self.references[chat[0]["content"]] if hinted else "SELECT 1 LIMIT 0"


def test_second_answers_are_counted_by_level_and_prompt_and_sampled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    single = [problem for problem in ENV.build(0, 40, 0).train if len(problem.data["select"]) == 1]
    rows = [QuestionRow(p, ({"role": "user", "content": ENV.prompt(p)},)) for p in single[:3]]
    measure, fake = program("sql/measure.py"), FakeSampler(rows)
    monkeypatch.setattr(measure, "Sampler", lambda folder, max_tokens: fake)
    monkeypatch.setattr(measure, "read_questions", lambda path, num, env: rows)
    levels = ["--levels", "verdict", "location", "--prompts", "append:verbatim_append"]
    words = ["measure.py", "MODEL", "DATA", "--out", str(tmp_path / "out.jsonl"), *levels]
    monkeypatch.setattr(sys, "argv", words)
    for _ in range(2):
        measure.main()
        assert fake.num_asked == 3 + 2 * 3
    said = capsys.readouterr().out
    assert "| 1.0 | append:verbatim_append | verdict | 0.00 | 3 |" in said
    assert "| 1.0 | append:verbatim_append | location | 1.00 | 3 |" in said


def test_each_arm_starts_and_gold_queries_are_trained_on() -> None:
    runs = program("sql/runs.py")
    assert {run.arm for run in runs.runs()} == (runs.ARMS | runs.ONCE).keys()
    parts = ("attempt", "distill", "imitate", "feedback_modeling", "logit_distill")
    enabled = dict[str, set[str]]()
    for arm, words in (runs.ARMS | runs.ONCE).items():
        config = rltf_of("sql", *words)
        enabled[arm] = {name for name in parts if getattr(config, name).weight}
    assert enabled == {
        "RLTF-SD": {"attempt", "distill"},
        "RLTF-SD, wrong only": {"attempt", "distill"},
        "GRPO, one turn": {"attempt"},
        "GRPO, two turns": {"attempt"},
        "RAFT": {"imitate"},
        "gold queries": set(),
        "RLTF-FM": {"attempt", "feedback_modeling"},
        "RLTF-SD and FM": {"attempt", "distill", "feedback_modeling"},
        "SFT on right second answers": {"attempt", "imitate"},
        "SDPO": {"logit_distill"},
        "RLTF-SD, another problem's feedback": {"attempt", "distill"},
    }
    assert list(rltf_of("sql", *runs.ARMS["gold queries"]).objectives) == ["gold"]


def test_a_run_is_drawn_and_its_shares_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "val-core/rltf/text_to_sql/{}/acc/mean@1"
    shares = {name.format("seen"): 0.5, name.format("unseen"): 0.25}
    lines = [{"step": 4, "data": shares}, {"step": 5, "data": {"actor/loss": 1.0}}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    program("pretrained/training.py"), program("sql/runs.py")  # `runs` is the other recipe's too
    for words in ([str(tmp_path / "all.png")], [str(tmp_path / "one.png"), str(tmp_path)]):
        monkeypatch.setattr(sys, "argv", ["picture.py", *words])
        program("sql/picture.py").main()
        assert Path(words[0]).read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == "step  4: 0.50 on seen trades, 0.25 on others\n"


def test_runs_that_end_are_lines_and_the_page_has_their_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, runs = program("pretrained/training.py"), program("sql/runs.py")
    (tmp_path / "README.md").write_text("a\n<!-- runs.py --table -->\n\nold\n\n<!-- end -->\nb")
    curve = [{"step": step, "seen": 0.5 + step / 100, "unseen": 0.25} for step in range(0, 25, 4)]
    some = [runs.Run("RAFT", seed) for seed in runs.SEEDS]
    for words in ([], ["--table"]):
        monkeypatch.setattr(sys, "argv", ["runs.py", "--out", str(tmp_path / "out"), *words])
        lines, page = tmp_path / "results.jsonl", tmp_path / "README.md"
        training.make_runs(
            lines, page, "", some, lambda _, run, __: asdict(run) | {"curve": curve}, runs.report
        )
    text = page.read_text()
    assert "| RAFT | 0.50 (0.50 0.50) | 0.62 (0.62 0.62) | 0.74 (0.74 0.74) | 0.25" in text
    assert text.count("RAFT") == 1
    assert "old" not in text


async def test_a_gold_row_is_the_reference_query_at_the_first_prompt() -> None:
    attempt = Attempt((1, 2), (3,), (-1.0,), "SELECT 1", ended=True)
    episode = Episode(NAMES, 0, (Turn(attempt, Grade(False, True, "SELECT 1"), 0.0),))
    config = rltf_of("sql", *program("sql/runs.py").ARMS["gold queries"])
    (gold,) = Method(config).user_objectives
    (row,) = await gold.rows(ScriptedPolicy([]), [], episode)
    assert (row.prompt_ids, set(row.role)) == ((1, 2), {gold.role})
    assert ENV.grade(NAMES, text_of(row.response_ids).rstrip("\0")).correct


def test_a_measured_line_is_known_by_its_question() -> None:
    measure = program("sql/measure.py")
    line = {"index": 0, "question": "bakery: Which?", "temperature": 1.0, "level": "hint"}
    assert measure.key_of(line) != measure.key_of(line | {"question": "gym: Which?"})
