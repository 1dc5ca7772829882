"""Queries that would harm a machine, by family."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

FILE = "hostile.db"
_BIG = (1_000_000, 50_000_000, 999_999_999, 2_147_483_647, 9_223_372_036_854_775_807)
_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
_DOUBLING = "WITH RECURSIVE n(x) AS (SELECT 'aaaaaaaa' UNION ALL SELECT x || x FROM n)"
TABLES = ("customers", "products", "sales")
"""Of the bakery."""


def writes() -> Iterator[str]:
    for table in TABLES:
        yield f"DELETE FROM {table}"
        yield f"DROP TABLE {table}"
        yield f"ALTER TABLE {table} RENAME TO gone"
        yield f"UPDATE {table} SET rowid = 7"
        yield f"INSERT INTO {table} DEFAULT VALUES"
        yield f"REPLACE INTO {table} VALUES (1, 2, 3, 4)"
        yield f"CREATE INDEX gone ON {table} (rowid)"
        yield f"CREATE TABLE copy AS SELECT * FROM {table}"
        yield f"CREATE TEMP TABLE copy AS SELECT * FROM {table}"
        yield f"CREATE VIEW copy AS SELECT * FROM {table}"
        yield f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN SELECT 1; END"
        yield f"WITH x AS (SELECT 1) DELETE FROM {table}"
        yield f"DELETE FROM {table} RETURNING *"
    yield from ("VACUUM", f"VACUUM INTO '{FILE}'", "REINDEX", "ANALYZE", "BEGIN EXCLUSIVE")
    yield from ("COMMIT", "ROLLBACK", "SAVEPOINT a", "RELEASE a")
    yield "CREATE VIRTUAL TABLE f USING fts5(a)"
    yield "CREATE VIRTUAL TABLE f USING rtree(a, b, c)"


def files() -> Iterator[str]:
    yield from (f"ATTACH '{FILE}' AS other", f"ATTACH DATABASE 'file:{FILE}?mode=rwc' AS other")
    yield from ("ATTACH ':memory:' AS other", "ATTACH '/etc/passwd' AS other", "DETACH main")
    yield from (f"SELECT writefile('{FILE}', 'x')", "SELECT readfile('/etc/passwd')")
    yield from (f"SELECT edit('{FILE}')", "SELECT fts3_tokenizer('simple')")
    yield from ("SELECT load_extension('evil')", "SELECT load_extension('evil', 'main')")
    yield from ("SELECT * FROM fsdir('/')", "SELECT * FROM csv('/etc/passwd')")


def settings() -> Iterator[str]:
    names = "query_only writable_schema hard_heap_limit soft_heap_limit temp_store journal_mode"
    names += " cache_size mmap_size trusted_schema temp_store_directory max_page_count threads"
    for name in names.split():
        yield f"PRAGMA {name}"
        yield f"PRAGMA {name} = 0"
        yield f"SELECT * FROM pragma_{name}"
    yield from (f"PRAGMA table_info({table})" for table in TABLES)
    yield from ("PRAGMA database_list", "SELECT * FROM pragma_database_list")


def schema() -> Iterator[str]:
    for name in ("sqlite_master", "sqlite_schema", "sqlite_temp_master", "main.sqlite_master"):
        yield f"SELECT * FROM {name}"
        yield f"SELECT sql FROM {name} WHERE type = 'table'"
        yield f"UPDATE {name} SET sql = 'x'"
        yield f"DELETE FROM {name}"
    yield from ("SELECT * FROM sqlite_stat1", "SELECT * FROM dbstat", "SELECT * FROM bytecode('x')")


def endless() -> Iterator[str]:
    for what in ("x", "count(*)", "max(x)", "group_concat(x)", "DISTINCT x", "sum(x * x)"):
        yield f"{_ENDLESS} SELECT {what} FROM n"
    yield f"{_ENDLESS} SELECT x FROM n ORDER BY -x"
    yield f"{_ENDLESS} SELECT * FROM n a JOIN n b"
    yield f"{_ENDLESS} SELECT x FROM n WHERE x < 0 LIMIT 1"
    yield f"{_ENDLESS} SELECT count(*) FROM n GROUP BY x % 7"
    yield f"{_ENDLESS} SELECT x, row_number() OVER (ORDER BY -x) FROM n"
    yield f"{_ENDLESS} SELECT * FROM sales WHERE quantity > (SELECT max(x) FROM n)"
    yield f"{_DOUBLING} SELECT * FROM n"
    yield f"{_DOUBLING} SELECT length(x) FROM n ORDER BY x"
    yield "WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT 1 FROM n, sales, sales b) SELECT * FROM n"


def joins() -> Iterator[str]:
    for many, what in product((4, 6, 9, 60), ("*", "count(*)", "DISTINCT t0.note", "max(t1.note)")):
        sales = ", ".join(f"sales t{i}" for i in range(many))
        yield f"SELECT {what} FROM {sales}"
        yield f"SELECT {what} FROM {sales} ORDER BY random()"
    six = ", ".join(f"sales t{i}" for i in range(6))
    yield f"SELECT group_concat(t0.note) FROM {six}"
    yield f"SELECT json_group_array(t0.note) FROM {six}"
    yield f"SELECT t0.note, count(*) FROM {six} GROUP BY t1.sale_id, t2.sale_id, t3.sale_id"
    yield f"SELECT sum(t0.quantity) OVER (ORDER BY t1.sale_id) FROM {six}"
    yield f"SELECT t0.note FROM {six} UNION SELECT t1.note FROM {six}"
    yield f"SELECT (SELECT count(*) FROM {six}) FROM sales"


def memory() -> Iterator[str]:
    for size in _BIG:
        yield f"SELECT randomblob({size})"
        yield f"SELECT zeroblob({size})"
        yield f"SELECT hex(zeroblob({size}))"
        yield f"SELECT length(hex(randomblob({size})))"
        yield f"SELECT printf('%{size}d', 1)"
        yield f"SELECT printf('%.{size}f', 1.5)"
        yield f"SELECT printf('%.*c', {size}, 'x')"
        yield f"SELECT replace(hex(zeroblob({size} / 2)), '0', 'xxxxxxxxxx')"
        yield f"SELECT group_concat(zeroblob({size}) || a.note) FROM sales a, sales b"
        yield f"SELECT count(*) FROM sales a, sales b ORDER BY randomblob({size})"
        yield f"SELECT quote(zeroblob({size})), zeroblob({size}), randomblob({size})"
    grown = "'aaaaaaaaaaaaaaaaaaaa'"
    for _ in range(6):
        grown = f"replace({grown}, 'a', 'aaaaaaaaaaaaaaaaaaaa')"
        yield f"SELECT {grown}"
        yield f"SELECT count(*) FROM sales a, sales b, sales c WHERE {grown} LIKE '%b%a%b'"
        yield f"SELECT group_concat({grown}) FROM sales a, sales b, sales c"
        yield f"SELECT upper({grown}) FROM sales a, sales b, sales c ORDER BY 1"
    big = "hex(zeroblob(49000))"
    yield f"SELECT {big} FROM sales a, sales b, sales c ORDER BY 1"
    yield f"SELECT DISTINCT {big} || a.sale_id || b.sale_id FROM sales a, sales b, sales c"
    yield f"SELECT group_concat({big}) FROM sales a, sales b"
    yield f"SELECT {', '.join([big] * 300)} FROM sales"
    yield f"WITH b AS MATERIALIZED (SELECT {big} FROM sales, sales c) SELECT count(*) FROM b"
    yield f"SELECT json_group_array({big}) FROM sales a, sales b"
    yield f"SELECT max({big} || a.sale_id), min({big}) FROM sales a, sales b, sales c, sales d"


def slow_calls() -> Iterator[str]:
    long = "hex(zeroblob(49000))"
    for many in (10, 90, 2000):
        pattern = "%0" * many + "1"
        yield f"SELECT count(*) FROM sales a, sales b, sales c WHERE {long} LIKE '{pattern}'"
        yield f"SELECT {long} GLOB '{pattern.replace('%', '*')}'"
        yield f"SELECT count(*) FROM sales a, sales b, sales c WHERE {long} GLOB '{'*0' * many}1'"
    for call in ("instr", "replace", "trim"):
        last = ", 'xx'" if call == "replace" else ""
        text = f"{call}({long}, '{'0' * 3000}1'{last})"
        yield f"SELECT count(*) FROM sales a, sales b, sales c WHERE {text} = 'z'"
    yield f"SELECT count(*) FROM sales a, sales b, sales c WHERE json_valid('[' || {long} || ']')"
    yield "SELECT count(*) FROM json_each('[' || replace(hex(zeroblob(20000)), '0', '0,') || '0]')"
    days = ", '+1 day'" * 90
    yield f"SELECT strftime('%Y%Y%Y', 'now'{days}) FROM sales"


def deep() -> Iterator[str]:
    for depth in (50, 500, 1900):
        yield f"SELECT {'(' * depth}1{')' * depth}"
        yield f"SELECT {'NOT ' * (depth // 2)}1"
        yield f"SELECT {'1+' * depth}1"
        yield f"SELECT 1 {'UNION ALL SELECT 1 ' * (depth // 10)}"
        yield f"{'SELECT * FROM (' * (depth // 20)}SELECT 1{')' * (depth // 20)}"
        yield f"SELECT {'abs(' * (depth // 4)}1{')' * (depth // 4)}"
        yield f"SELECT {','.join('1' * depth)}"
        yield f"SELECT 1 WHERE 1 IN ({','.join('1' * depth)})"
        yield f"SELECT CASE {'WHEN 1 THEN 2 ' * (depth // 10)} END"
        yield f"SELECT '{'[' * depth}' -> '$'"
        yield f"SELECT json('{'[' * depth}{']' * depth}')"


def huge() -> Iterator[str]:
    yield f"SELECT '{'a' * 1_000_000}'"
    yield f"SELECT 1 -- {'a' * 1_000_000}"
    yield f"SELECT {'1,' * 500_000}1"
    yield f"SELECT 1 WHERE {'1 AND ' * 150_000}1"
    yield "(" * 1_000_000
    yield "SELECT * FROM " + ", ".join(["sales"] * 100_000)


def several() -> Iterator[str]:
    for other in ("SELECT 2", "DROP TABLE sales", f"ATTACH '{FILE}' AS o", "COMMIT"):
        yield f"SELECT 1; {other}"
        yield f"{other}; SELECT 1"
        yield f"SELECT 1; -- nothing\n{other};"
    yield "SELECT 1; " * 300
    yield ";" * 3000


def signs() -> Iterator[str]:
    yield from ("SELECT 1\0; DROP TABLE sales", "\0", "SELECT '\0'", "SELECT '\ud800'")
    yield from ("SELECT \u202e1", "SELECT ?", "SELECT :name", "SELECT @a, $b", "SELECT ?999999")
    yield from (
        "SELECT CAST(x'ff' AS TEXT)",
        "SELECT x'00'",
        "SELECT 1e999, -1e999",
        "SELECT 9e999-9e999",
    )
    yield from (
        "EXPLAIN SELECT 1",
        "EXPLAIN QUERY PLAN SELECT 1",
        "SELECT",
        "WITH x AS (",
        "```",
        "",
    )
    yield from (
        "SELECT abs(-9223372036854775808)",
        "SELECT char(0, 55296)",
        "SELECT 1/0",
        "SELECT NULL",
    )
    yield from ("SELECT RAISE(ABORT, 'x')", "SELECT sqlite_version()", "SELECT * FROM sales WHERE")


FAMILIES = {
    family.__name__: tuple(family())
    for family in (
        *(writes, files, settings, schema, endless, joins, memory, slow_calls, deep, huge),
        *(several, signs),
    )
}
