"""Queries that would harm a machine, by family."""

FILE = "hostile.db"
TABLES = ("customers", "products", "sales")
"""Of the bakery."""
_BIG = (1_000_000, 50_000_000, 999_999_999, 2_147_483_647, 9_223_372_036_854_775_807)
_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
_DOUBLING = "WITH RECURSIVE n(x) AS (SELECT 'aaaaaaaa' UNION ALL SELECT x || x FROM n)"
_LONG = "hex(zeroblob(49000))"
_SIX = ", ".join(f"sales t{i}" for i in range(6))


WRITES = (
    *(
        query
        for table in TABLES
        for query in (
            f"DELETE FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} RENAME TO gone",
            f"UPDATE {table} SET rowid = 7",
            f"INSERT INTO {table} DEFAULT VALUES",
            f"REPLACE INTO {table} VALUES (1, 2, 3, 4)",
            f"CREATE INDEX gone ON {table} (rowid)",
            f"CREATE TABLE copy AS SELECT * FROM {table}",
            f"CREATE TEMP TABLE copy AS SELECT * FROM {table}",
            f"CREATE VIEW copy AS SELECT * FROM {table}",
            f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN SELECT 1; END",
            f"WITH x AS (SELECT 1) DELETE FROM {table}",
            f"DELETE FROM {table} RETURNING *",
        )
    ),
    *("VACUUM", f"VACUUM INTO '{FILE}'", "REINDEX", "ANALYZE", "BEGIN EXCLUSIVE"),
    *("COMMIT", "ROLLBACK", "SAVEPOINT a", "RELEASE a"),
    "CREATE VIRTUAL TABLE f USING fts5(a)",
    "CREATE VIRTUAL TABLE f USING rtree(a, b, c)",
)


FILES = (
    f"ATTACH '{FILE}' AS other",
    f"ATTACH DATABASE 'file:{FILE}?mode=rwc' AS other",
    "ATTACH ':memory:' AS other",
    "ATTACH '/etc/passwd' AS other",
    "DETACH main",
    f"SELECT writefile('{FILE}', 'x')",
    "SELECT readfile('/etc/passwd')",
    f"SELECT edit('{FILE}')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT load_extension('evil')",
    "SELECT load_extension('evil', 'main')",
    "SELECT * FROM fsdir('/')",
    "SELECT * FROM csv('/etc/passwd')",
)


_NAMES = (
    *("query_only", "writable_schema", "hard_heap_limit", "soft_heap_limit", "temp_store"),
    *("journal_mode", "cache_size", "mmap_size", "trusted_schema", "temp_store_directory"),
    *("max_page_count", "threads"),
)
SETTINGS = (
    *(
        query
        for name in _NAMES
        for query in (f"PRAGMA {name}", f"PRAGMA {name} = 0", f"SELECT * FROM pragma_{name}")
    ),
    *(f"PRAGMA table_info({table})" for table in TABLES),
    *("PRAGMA database_list", "SELECT * FROM pragma_database_list"),
)
SCHEMA = (
    *(
        query
        for name in ("sqlite_master", "sqlite_schema", "sqlite_temp_master", "main.sqlite_master")
        for query in (
            f"SELECT * FROM {name}",
            f"SELECT sql FROM {name} WHERE type = 'table'",
            f"UPDATE {name} SET sql = 'x'",
            f"DELETE FROM {name}",
        )
    ),
    *("SELECT * FROM sqlite_stat1", "SELECT * FROM dbstat", "SELECT * FROM bytecode('x')"),
)


ENDLESS = (
    *(
        f"{_ENDLESS} SELECT {what} FROM n"
        for what in ("x", "count(*)", "max(x)", "group_concat(x)", "DISTINCT x", "sum(x * x)")
    ),
    f"{_ENDLESS} SELECT x FROM n ORDER BY -x",
    f"{_ENDLESS} SELECT * FROM n a JOIN n b",
    f"{_ENDLESS} SELECT x FROM n WHERE x < 0 LIMIT 1",
    f"{_ENDLESS} SELECT count(*) FROM n GROUP BY x % 7",
    f"{_ENDLESS} SELECT x, row_number() OVER (ORDER BY -x) FROM n",
    f"{_ENDLESS} SELECT * FROM sales WHERE quantity > (SELECT max(x) FROM n)",
    f"{_DOUBLING} SELECT * FROM n",
    f"{_DOUBLING} SELECT length(x) FROM n ORDER BY x",
    "WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT 1 FROM n, sales, sales b) SELECT * FROM n",
)


JOINS = (
    *(
        f"SELECT {what} FROM {', '.join(f'sales t{i}' for i in range(many))}{order}"
        for many in (4, 6, 9, 60)
        for what in ("*", "count(*)", "DISTINCT t0.note", "max(t1.note)")
        for order in ("", " ORDER BY random()")
    ),
    *(
        f"SELECT group_concat(t0.note) FROM {_SIX}",
        f"SELECT json_group_array(t0.note) FROM {_SIX}",
        f"SELECT t0.note, count(*) FROM {_SIX} GROUP BY t1.sale_id, t2.sale_id, t3.sale_id",
        f"SELECT sum(t0.quantity) OVER (ORDER BY t1.sale_id) FROM {_SIX}",
        f"SELECT t0.note FROM {_SIX} UNION SELECT t1.note FROM {_SIX}",
        f"SELECT (SELECT count(*) FROM {_SIX}) FROM sales",
    ),
)


_TWENTY = "'aaaaaaaaaaaaaaaaaaaa'"
_GROWN = [f"{'replace(' * n}{_TWENTY}" + f", 'a', {_TWENTY})" * n for n in range(1, 7)]
MEMORY = (
    *(
        query
        for size in _BIG
        for query in (
            f"SELECT randomblob({size})",
            f"SELECT zeroblob({size})",
            f"SELECT hex(zeroblob({size}))",
            f"SELECT length(hex(randomblob({size})))",
            f"SELECT printf('%{size}d', 1)",
            f"SELECT printf('%.{size}f', 1.5)",
            f"SELECT printf('%.*c', {size}, 'x')",
            f"SELECT replace(hex(zeroblob({size} / 2)), '0', 'xxxxxxxxxx')",
            f"SELECT group_concat(zeroblob({size}) || a.note) FROM sales a, sales b",
            f"SELECT count(*) FROM sales a, sales b ORDER BY randomblob({size})",
            f"SELECT quote(zeroblob({size})), zeroblob({size}), randomblob({size})",
        )
    ),
    *(
        query
        for grown in _GROWN
        for query in (
            f"SELECT {grown}",
            f"SELECT count(*) FROM sales a, sales b, sales c WHERE {grown} LIKE '%b%a%b'",
            f"SELECT group_concat({grown}) FROM sales a, sales b, sales c",
            f"SELECT upper({grown}) FROM sales a, sales b, sales c ORDER BY 1",
        )
    ),
    *(
        f"SELECT {_LONG} FROM sales a, sales b, sales c ORDER BY 1",
        f"SELECT DISTINCT {_LONG} || a.sale_id || b.sale_id FROM sales a, sales b, sales c",
        f"SELECT group_concat({_LONG}) FROM sales a, sales b",
        f"SELECT {', '.join([_LONG] * 300)} FROM sales",
        f"WITH b AS MATERIALIZED (SELECT {_LONG} FROM sales, sales c) SELECT count(*) FROM b",
        f"SELECT json_group_array({_LONG}) FROM sales a, sales b",
        f"SELECT max({_LONG} || a.sale_id), min({_LONG}) FROM sales a, sales b, sales c, sales d",
    ),
)
_COUNT = "SELECT count(*) FROM sales a, sales b, sales c WHERE"
_DAYS = ", '+1 day'" * 90
SLOW_CALLS = (
    *(
        query
        for many in (10, 90, 2000)
        for query in (
            f"{_COUNT} {_LONG} LIKE '{'%0' * many}1'",
            f"SELECT {_LONG} GLOB '{'*0' * many}1'",
            f"{_COUNT} {_LONG} GLOB '{'*0' * many}1'",
        )
    ),
    *(
        f"{_COUNT} {call}({_LONG}, '{'0' * 3000}1'{last}) = 'z'"
        for call, last in (("instr", ""), ("replace", ", 'xx'"), ("trim", ""))
    ),
    f"{_COUNT} json_valid('[' || {_LONG} || ']')",
    "SELECT count(*) FROM json_each('[' || replace(hex(zeroblob(20000)), '0', '0,') || '0]')",
    f"SELECT strftime('%Y%Y%Y', 'now'{_DAYS}) FROM sales",
)
DEEP = (
    *(
        query
        for depth in (50, 500, 1900)
        for query in (
            f"SELECT {'(' * depth}1{')' * depth}",
            f"SELECT {'NOT ' * (depth // 2)}1",
            f"SELECT {'1+' * depth}1",
            f"SELECT 1 {'UNION ALL SELECT 1 ' * (depth // 10)}",
            f"{'SELECT * FROM (' * (depth // 20)}SELECT 1{')' * (depth // 20)}",
            f"SELECT {'abs(' * (depth // 4)}1{')' * (depth // 4)}",
            f"SELECT {','.join('1' * depth)}",
            f"SELECT 1 WHERE 1 IN ({','.join('1' * depth)})",
            f"SELECT CASE {'WHEN 1 THEN 2 ' * (depth // 10)} END",
            f"SELECT '{'[' * depth}' -> '$'",
            f"SELECT json('{'[' * depth}{']' * depth}')",
        )
    ),
)


HUGE = (
    f"SELECT '{'a' * 1_000_000}'",
    f"SELECT 1 -- {'a' * 1_000_000}",
    f"SELECT {'1,' * 500_000}1",
    f"SELECT 1 WHERE {'1 AND ' * 150_000}1",
    "(" * 1_000_000,
    "SELECT * FROM " + ", ".join(["sales"] * 100_000),
)


SEVERAL = (
    *(
        query
        for other in ("SELECT 2", "DROP TABLE sales", f"ATTACH '{FILE}' AS o", "COMMIT")
        for query in (f"SELECT 1; {other}", f"{other}; SELECT 1", f"SELECT 1; -- nothing\n{other};")
    ),
    *("SELECT 1; " * 300, ";" * 3000),
)


SIGNS = (
    "SELECT 1\0; DROP TABLE sales",
    "\0",
    "SELECT '\0'",
    "SELECT '\ud800'",
    "SELECT \u202e1",
    "SELECT ?",
    "SELECT :name",
    "SELECT @a, $b",
    "SELECT ?999999",
    "SELECT CAST(x'ff' AS TEXT)",
    "SELECT x'00'",
    "SELECT 1e999, -1e999",
    "SELECT 9e999-9e999",
    "EXPLAIN SELECT 1",
    "EXPLAIN QUERY PLAN SELECT 1",
    "SELECT",
    "WITH x AS (",
    "```",
    "",
    "SELECT abs(-9223372036854775808)",
    "SELECT char(0, 55296)",
    "SELECT 1/0",
    "SELECT NULL",
    "SELECT RAISE(ABORT, 'x')",
    "SELECT sqlite_version()",
    "SELECT * FROM sales WHERE",
)


FAMILIES = {
    "writes": WRITES,
    "files": FILES,
    "settings": SETTINGS,
    "schema": SCHEMA,
    "endless": ENDLESS,
    "joins": JOINS,
    "memory": MEMORY,
    "slow_calls": SLOW_CALLS,
    "deep": DEEP,
    "huge": HUGE,
    "several": SEVERAL,
    "signs": SIGNS,
}
