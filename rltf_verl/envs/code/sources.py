"""Rows of published datasets as programming tasks.

LiveCodeBench has public and private tests. APPS and TACO have one list: the tests in the statement,
or else the first ones, are public; the others are private.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

from rltf_verl.envs.files import BUILDERS, PIP, load_file
from rltf_verl.registry import described

Test = dict[str, Any]
"""`input`: standard input, or the list of arguments. `accept`: the outputs that pass, the one to
show last.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """Contents of `Problem.data` of the environment `code`."""

    statement: str
    entry: str | None
    """Function to call; None for programs that read standard input."""
    starter: str
    public: tuple[Test, ...]
    private: tuple[Test, ...]
    solution: str
    """The dataset's solution; empty if it has none."""

    def data(self) -> dict[str, Any]:
        """The task in JSON's types."""
        return {**asdict(self), "public": list(self.public), "private": list(self.private)}


class _NoClasses(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # The list is one string; a class in a pickle may run any code.
        raise pickle.UnpicklingError(f"{module}.{name} in a list of tests")


def load_rows(key: str, where: str) -> Iterator[Mapping[str, Any]]:
    """The rows of `where`: a .json, .jsonl or .parquet file, local, `pip:NAME/FILE` or `hf://…`, or
    `name@split` of the hub.

    Raises:
        ValueError: it cannot be loaded; names config `key`.
    """
    from datasets import load_dataset

    try:
        if where.startswith(PIP) or Path(where).is_file():
            yield from load_file(where)
        elif builder := BUILDERS.get(PurePath(where).suffix):
            yield from load_dataset(builder, data_files=where, split="train")
        else:
            name, _, split = where.partition("@")
            yield from load_dataset(name, split=split or "train")
    # A library of many file systems and formats, each with errors of its own.
    except Exception as error:
        raise ValueError(f"{key}={where!r} cannot be loaded: {described(error)}") from error


def tasks_of(source: str, rows: Iterator[Mapping[str, Any]], num_public: int) -> Iterator[Task]:
    """The tasks of the rows that have tests that can be read; of each statement the first."""
    seen = set()
    for row in rows:
        task = read_row(source, row, num_public)
        if task is not None and task.statement not in seen:
            seen.add(task.statement)
            yield task


def read_row(source: str, row: Mapping[str, Any], num_public: int) -> Task | None:
    """The task of one row; None if it has no tests that can be read.

    Raises:
        ValueError: a column is missing.
    """
    try:
        return READERS[source](row, num_public)
    except KeyError as error:
        raise ValueError(
            f"rltf.env.source={source}: the rows of rltf.env.path have no column {error}"
        ) from error
    except (ValueError, TypeError, RecursionError, zlib.error, pickle.UnpicklingError):
        return None


def read_apps(row: Mapping[str, Any], num_public: int) -> Task | None:
    """APPS and TACO: `question`, `solutions`, `input_output` (both JSON) and `starter_code`."""
    both = json.loads(row["input_output"] or "{}")
    entry = both.get("fn_name") or None
    pairs = zip(both.get("inputs", []), both.get("outputs", []), strict=False)
    if entry:
        tests = _distinct(_call_tests(list(pairs)))
    else:
        tests = _distinct(_stdin_test(*pair) for pair in pairs)
    public, private = split_tests(row["question"], tests, num_public)
    if not private:
        return None
    solution = first_that_parses(_list(row["solutions"]))
    return Task(row["question"], entry, row["starter_code"] or "", public, private, solution)


def read_livecodebench(row: Mapping[str, Any], num_public: int) -> Task | None:
    """LiveCodeBench, code generation: `public_test_cases`, `private_test_cases`, `metadata`; no
    solutions.
    """
    entry = (_parsed(row["metadata"]) or {}).get("func_name") or None
    read = _functional if entry else _standard
    public = _distinct(read(test) for test in json.loads(row["public_test_cases"]))
    shown = {_key(test) for test in public}
    hidden = _distinct(read(test) for test in json.loads(_unpack(row["private_test_cases"])))
    private = tuple(test for test in hidden if _key(test) not in shown)
    if not private:
        return None
    return Task(row["question_content"], entry, row["starter_code"] or "", public, private, "")


def read_humaneval(row: Mapping[str, Any], num_public: int) -> Task | None:
    """HumanEval, with `calls` (`recorder`)."""
    calls = ({"input": given, "accept": [value]} for given, value in row["calls"])
    public, private = split_tests(row["prompt"], _distinct(calls), num_public)
    statement = f"Complete this function:\n```python\n{row['prompt'].rstrip()}\n```"
    solution = row["prompt"] + row["canonical_solution"]
    return Task(statement, row["entry_point"], "", public, private, solution) if private else None


def recorder(row: Mapping[str, Any]) -> str:
    """A program with a function `record_calls`, which runs the row's test on the row's solution and
    returns the arguments and the value of each call that JSON can hold.
    """
    return f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\n{RECORD}".replace(
        "ENTRY", row["entry_point"]
    )


RECORD = """
def record_calls():
    import json
    import random
    random.seed(0)  # some tests draw their arguments
    seen = []
    def candidate(*given):
        try:
            stored = json.dumps(given)
            # twice: a function may change its arguments
            seen.append((json.loads(stored), json.loads(json.dumps(ENTRY(*json.loads(stored))))))
        except (TypeError, ValueError):
            pass
        return ENTRY(*given)
    check(candidate)
    return seen
"""

READERS: dict[str, Callable[[Mapping[str, Any], int], Task | None]] = {
    "apps": read_apps,
    "taco": read_apps,
    "livecodebench": read_livecodebench,
    "humaneval": read_humaneval,
}


def split_tests(
    statement: str, tests: Sequence[Test], num_public: int
) -> tuple[tuple[Test, ...], tuple[Test, ...]]:
    """(public, private): public are those that the statement shows, or else the first `num_public`.

    At least one is private.
    """
    words = " ".join(statement.split())
    shown = [test for test in tests if _stands_in(words, test)] or tests[:num_public]
    # One test at least stays private: else the reward would be what feedback tells.
    public = list(shown)[: max(len(tests) - 1, 0)]
    keys = {_key(test) for test in public}
    return tuple(public), tuple(test for test in tests if _key(test) not in keys)


def first_that_parses(programs: Sequence[str]) -> str:
    """The first that is Python 3; empty if none is. They are not run."""
    for program in programs:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of `"\d"` and the like
                ast.parse(program)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return program
    return ""


def _stands_in(words: str, test: Test) -> bool:
    """True if the words hold the input, then "Sample Output 1:" or the like, and the output."""
    parts = [
        " ".join(part.split()) if isinstance(part, str) else ""
        for part in (test["input"], test["accept"][-1])
    ]
    if not all(part and part in words for part in parts):  # most: an expression costs more
        return False
    given, wanted = map(re.escape, parts)
    between = r"(?:\S+ ){0,2}(?i:\S*output\S*) (?:\S{1,3} )?"
    return re.search(rf"(?<!\S){given} {between}{wanted}(?!\S)", words) is not None


def _stdin_test(given: Any, output: Any) -> Test:
    return {"input": _lines(given), "accept": [_lines(output)]}


def _lines(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _call_tests(pairs: Sequence[tuple[Any, Any]]) -> Iterator[Test]:
    # APPS wraps the return values of most problems in a list; its own grader takes both.
    wrapped = all(len(output) == 1 for _, output in pairs if isinstance(output, list))
    for given, output in pairs:
        if not isinstance(given, list):
            raise TypeError("arguments are a list")
        both = wrapped and isinstance(output, list)
        yield {"input": given, "accept": [output, output[0]] if both else [output]}


def _standard(test: Mapping[str, str]) -> Test:
    return {"input": test["input"], "accept": [test["output"]]}


def _functional(test: Mapping[str, str]) -> Test:
    # One argument a line.
    arguments = [json.loads(line) for line in test["input"].split("\n") if line.strip()]
    return {"input": arguments, "accept": [json.loads(test["output"])]}


def _unpack(tests: str) -> str:
    """Private tests are JSON, or JSON pickled as one string, compressed, in base 64."""
    if tests.lstrip().startswith("["):
        return tests
    text = _NoClasses(io.BytesIO(zlib.decompress(base64.b64decode(tests)))).load()
    return str(text)


def _distinct(tests: Iterator[Test]) -> tuple[Test, ...]:
    # A dict keeps the last of equal keys: reversed twice, the first test of an input stays, in
    # order.
    return tuple({_key(test): test for test in reversed(list(tests))}.values())[::-1]


def _key(test: Test) -> str:
    return json.dumps(test["input"], sort_keys=True)


def _list(value: Any) -> list[str]:
    return [text for text in _parsed(value) or [] if isinstance(text, str)]


def _parsed(value: Any) -> Any:
    """A column that holds JSON in some copies of a dataset."""
    return json.loads(value) if isinstance(value, str) and value.strip() else value
