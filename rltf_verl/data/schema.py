"""The dataset rows that verl reads and our agent loop gets back: written and checked here only.

An environment's own fields travel as one JSON string, `extra_info.task`: datasets of several
environments then have one schema and can be concatenated.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl.envs.base import Env
from rltf_verl.types import Message, Problem

AGENT_NAME = "rltf"
FIX = "make the dataset with `rltf data build`, or bring it into verl's form (docs/data.md)"
REQUIRED = ("data_source", "prompt", "reward_model", "extra_info", "agent_name")
NO_CHAT = (
    "a prompt is no list of chat messages: write a text, as TRL has it, as"
    " [{'role': 'user', 'content': TEXT}]"
)
CORRECTIONS = "corrections"
"""`extra_info.env` of rows that hold a recorded answer and its correction."""
LABELLED, JUDGED = "corrected: true", "judge"
"""`rule` of a correction that a person or a judge has checked; others were picked by a rule."""
MOST_NAMED = 5
"""Rows that a message names."""
MEDIA = ("images", "videos", "audios")
"""Columns that verl turns into parts of a prompt which are no text."""

SCHEMA = pa.schema(
    {
        "data_source": pa.string(),
        "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
        "ability": pa.string(),
        "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
        "extra_info": pa.struct(
            {"split": pa.string(), "index": pa.int64(), "env": pa.string(), "task": pa.string()}
        ),
        "agent_name": pa.string(),
    }
)


def row_of(problem: Problem, prompt: str, split: str, subset: str = "") -> dict[str, Any]:
    """The dataset row of a problem, whose first user message is `prompt`. verl has metrics per
    `data_source`.
    """
    task = json.dumps(dict(problem.data), sort_keys=True, ensure_ascii=False)
    return {
        "data_source": f"rltf/{problem.env}/{subset}" if subset else f"rltf/{problem.env}",
        "prompt": [{"role": "user", "content": prompt}],
        "ability": "reasoning",
        "reward_model": {"style": "rule", "ground_truth": problem.reference},
        "extra_info": {"split": split, "index": problem.index, "env": problem.env, "task": task},
        "agent_name": AGENT_NAME,
    }


def problem_from_row(extra_info: Mapping[str, Any], reward_model: Mapping[str, Any]) -> Problem:
    """The problem that `row_of` wrote.

    Raises:
        ValueError: a field is missing or `task` is not a JSON object; names it and the fix.
    """
    task = _field(extra_info, "extra_info", "task")
    try:
        data = json.loads(task)
    except (TypeError, ValueError) as error:
        raise ValueError(f"extra_info.task is not JSON ({error}): {FIX}") from error
    if not isinstance(data, dict):
        raise ValueError(
            f"extra_info.task is JSON, but a {type(data).__name__} and not an object: {FIX}"
        )
    env = str(_field(extra_info, "extra_info", "env"))
    return _problem(env, data, extra_info, reward_model)


def problem_of(env: Env | None, row: Mapping[str, Any]) -> Problem:
    """The problem of a row: one that `row_of` wrote, or any in verl's form where the environment
    takes it (`Env.data_of`).

    Args:
        env: grades it; None for a row that `row_of` wrote.
        row: with `extra_info`, `reward_model`, and a chat as `raw_prompt` or `prompt`.

    Raises:
        ValueError: a field is missing or cannot be used; names it and the fix.
    """
    info, reward_model = row.get("extra_info") or {}, row.get("reward_model") or {}
    if env is None or not env.takes_rows or _is_ours(info):
        return problem_from_row(info, reward_model)
    prompt = row["raw_prompt"] if "raw_prompt" in row else row["prompt"]
    if prompt is None or not len(prompt):  # an array has no truth
        raise ValueError(f"the prompt is empty; {FIX}")
    question = text_of(prompt[-1]["content"])
    data = env.data_of(question, row)
    if info.get("index") is None:  # the question's hash: the same one wherever the row is read
        info = {**info, "index": question}
    if is_nan(reward_model.get("ground_truth", math.nan)):  # null is a task without one
        raise ValueError(f"reward_model.ground_truth is missing: {FIX}")
    return _problem(env.name, data, info, reward_model)


def _problem(
    env: str, data: Mapping[str, Any], info: Mapping[str, Any], reward_model: Mapping[str, Any]
) -> Problem:
    index = _index(_field(info, "extra_info", "index"))
    if "reference" in data:
        reference = str(data["reference"])
    else:
        reference = reference_text(_field(reward_model, "reward_model", "ground_truth"))
    return Problem(env, index, data, reference, _demonstration(info))


def _is_ours(info: Mapping[str, Any]) -> bool:
    """True if `row_of` wrote it: other people's rows may have a `task` or an `env` of their own."""
    task = info.get("task")
    return info.get("env") is not None and isinstance(task, str) and task.startswith("{")


def same_everywhere(indices: Sequence[Any]) -> bool:
    """True if several rows have one index: their episodes would be sampled with the same seeds."""
    return len(indices) > 1 and set(map(str, indices)) == {str(indices[0])} != {"None"}


def is_nan(value: Any) -> bool:
    """True for NaN, which pandas writes for a missing value."""
    return isinstance(value, float) and math.isnan(value)


def reference_text(value: Any) -> str:
    """A reference answer. Raises ValueError unless it is a single value."""
    if is_nan(value):
        raise ValueError("reward_model.ground_truth is NaN: write the answer, or drop the row")
    if isinstance(value, (bytes, Mapping)) or (
        hasattr(value, "__len__") and not isinstance(value, str)
    ):
        raise ValueError(
            f"reward_model.ground_truth is a {type(value).__name__} ({str(value)[:40]}), and"
            " answers are compared with one text: write it as the text that a right answer has"
        )
    return str(value)


def first_prompt(row: Mapping[str, Any]) -> list[Message]:
    """The messages of a dataset row. Raises ValueError if one has no text."""
    raw = row["raw_prompt"] if "raw_prompt" in row else row["prompt"]
    # an array has no truth
    messages = () if raw is None else raw
    return [{"role": str(m["role"]), "content": text_of(m["content"])} for m in messages]


def text_of(content: Any) -> str:
    """The text of a message; of one in parts, their texts one after the other, as chat templates
    write them.

    Raises:
        ValueError: it is missing, or holds something other than text, such as an image.
    """
    if isinstance(content, str):
        return content
    if content is None:
        raise ValueError("a message of the prompt has no content: write a text, or drop the row")
    if not isinstance(content, (list, tuple)) or not all(_is_text(part) for part in content):
        raise ValueError(
            "the prompt holds more than text: images, videos and audio cannot be asked about; drop"
            " them"
        )
    return "".join(part["text"] for part in content)


def _is_text(part: Any) -> bool:
    """Columns of structs give every part all fields, those of others as None."""
    if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
        return False
    return all(value is None or name in ("type", "text") for name, value in part.items())


def files_of(value: Any) -> list[str]:
    """The paths of `data.train_files` or `data.val_files`, which may be one or a list."""
    return [str(Path(path).expanduser()) for path in ([value] if isinstance(value, str) else value)]


class VerlRowsError(ValueError):
    """A file in verl's form, where one of ours is read."""

    def __init__(self, trouble: str, choice: str = "rltf/env=reward_function") -> None:
        super().__init__(f"{trouble}; or take it as it is, graded by its reward function: {choice}")
        self.trouble = trouble


def check_parquet(path: str | Path, env: Env | None = None) -> Problem:
    """Check that a file holds rows of ours, or in verl's form if `env` takes them: its columns, its
    first row, and in all rows what a prompt is made of.

    Returns:
        The first problem.

    Raises:
        ValueError: not parquet, empty, a column or field is missing, or a prompt is not text; names
            the file and the fix.
        FileNotFoundError: no such file.
    """
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file, seen from {Path.cwd()}") from None
    except pa.ArrowInvalid as error:
        raise ValueError(not_parquet(path, error)) from error
    needed = REQUIRED if env is None or not env.takes_rows else REQUIRED[:-2]
    with file:
        present = [name for name in REQUIRED if name in file.schema_arrow.names]
        missing = [name for name in needed if name not in present]
        if missing:
            trouble = f"{path} has no column {', '.join(missing)}: {FIX}"
            raise VerlRowsError(trouble) if missing == ["agent_name"] else ValueError(trouble)
        for name in {"extra_info", "reward_model"}.intersection(present):
            kind = file.schema_arrow.field(name).type
            if not (pa.types.is_struct(kind) or pa.types.is_null(kind)):
                raise ValueError(f"{path}: the column {name} is a {kind} and no struct: {FIX}")
        _check_prompts(file, path)
        first = next(file.iter_batches(batch_size=1, columns=present), None)
    if first is None or first.num_rows == 0:
        raise ValueError(f"{path} has no rows: {FIX}")
    row = first.to_pylist()[0]
    try:
        return problem_of(env, row)
    except ValueError as error:
        raise ValueError(f"{path}, first row: {error}") from error


def not_parquet(path: str | Path, error: Exception) -> str:
    """The fault of a file that pyarrow cannot open, and the fix."""
    file = Path(path)
    if file.suffix not in (".json", ".jsonl"):
        return f"{path} is not a parquet file ({error}): {FIX}"
    return (
        f'{path} is JSON, and parquet is read here: name the file that python -c "import datasets;'
        f" datasets.Dataset.from_json('{file}').to_parquet('{file.with_suffix('.parquet')}')\""
        " writes"
    )


def rows_of(path: str | Path) -> int:
    """Number of rows of a parquet file."""
    return int(pq.read_metadata(path).num_rows)


def first_rows(path: str | Path, num: int | None) -> list[dict[str, Any]]:
    """The first `num` rows of a checked file, or all, as it has them."""
    with pq.ParquetFile(path) as file:
        batches = file.iter_batches(batch_size=num or 1024)
        return list(islice((row for batch in batches for row in batch.to_pylist()), num))


def environments_of(path: str | Path) -> set[str]:
    """The environments that the rows of a file were made for (`extra_info.env`); none for one in
    verl's form, and for one that `check_parquet` refuses.
    """
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid:
        return set()
    with file:
        # pyarrow's index of what is not there is −1.
        at = file.schema_arrow.get_field_index("extra_info")
        fields = pa.null() if at < 0 else file.schema_arrow.field(at).type
        if (
            not pa.types.is_struct(fields)
            or min(fields.get_field_index(name) for name in ("env", "task")) < 0
        ):
            return set()
        infos = _column(file, "extra_info.env", "extra_info.task")
        return {str(info["env"]) for info in infos if info and _is_ours(info)}


def refuse_foreign_loops(path: str | Path) -> None:
    """Raise ValueError if a row of a checked file names an agent loop that is not this package's:
    verl would let that one play it.
    """
    with pq.ParquetFile(path) as file:
        names = _column(file, "agent_name") if "agent_name" in file.schema_arrow.names else ()
        foreign = {str(name) for name in names if not is_own_loop(name)}
    if foreign:
        raise ValueError(
            f"{path}: its rows name the agent loop {', '.join(sorted(foreign))}, which gives no"
            " feedback: drop the column agent_name"
        )


def is_own_loop(agent_name: Any) -> bool:
    """True for `rltf` and what begins with it."""
    return str(agent_name).startswith(AGENT_NAME)


def corrections_in(path: str | Path) -> list[dict[str, Any]]:
    """`Problem.data` of a file of `rltf data corrections`; nothing for other data."""
    if CORRECTIONS not in environments_of(path):
        return []
    with pq.ParquetFile(path) as file:
        infos = list(_column(file, "extra_info.env", "extra_info.task"))
    return [json.loads(info["task"]) for info in infos if info["env"] == CORRECTIONS]


def index_of_all(path: str | Path) -> str | None:
    """The one `extra_info.index` that all rows of a checked file share, or None."""
    with pq.ParquetFile(path) as file:
        infos = _column(file, "extra_info") if "extra_info" in file.schema_arrow.names else ()
        indices = [str((info or {}).get("index")) for info in infos]
    return indices[0] if same_everywhere(indices) else None


def _check_prompts(file: pq.ParquetFile, path: str | Path) -> None:
    """Raise ValueError if a row asks with anything but text."""
    for name in MEDIA:
        if name in file.schema_arrow.names and any(_column(file, name)):
            raise ValueError(
                f"{path}: the column {name} is not empty, and only text can be asked about: drop it"
            )
    if file.schema_arrow.field("prompt").type == SCHEMA.field("prompt").type:
        return
    for row, prompt in enumerate(_column(file, "prompt")):
        trouble = _trouble_with(prompt)
        if trouble:
            raise ValueError(f"{path}, row {row}: {trouble}")


def _trouble_with(prompt: Iterable[Any] | None) -> str:
    """Why a prompt is no chat of texts; empty if it is one."""
    try:
        for message in prompt or ():
            text_of(message["content"])
            if message.get("tool_calls"):
                return "a message of the prompt is of a tool call, and only texts are read: drop it"
    except ValueError as error:
        return str(error)
    except (TypeError, LookupError):
        return NO_CHAT
    return ""


def refuse_empty_prompts(path: str | Path) -> None:
    """Raise ValueError if a row of a checked file asks nothing."""
    with pq.ParquetFile(path) as file:
        empty = [i for i, prompt in enumerate(_column(file, "prompt")) if not _asks(prompt)]
    if empty:
        more = f" and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
        raise ValueError(
            f"{path}: the prompt is empty in row {', '.join(map(str, empty[:MOST_NAMED]))}{more}"
            " (the first row is 0): drop these rows, or write a question as the last message"
        )


def _asks(prompt: Sequence[Mapping[str, Any]] | None) -> bool:
    """True if all messages have a content, and the last one a text."""
    if not prompt or any(message["content"] is None for message in prompt):
        return False
    return bool(text_of(prompt[-1]["content"]))


def _column(file: pq.ParquetFile, *names: str) -> Iterator[Any]:
    """The values of a column, or of a struct's fields, with one batch in memory at a time."""
    for batch in file.iter_batches(columns=list(names)):
        # Fields of one struct come back as one column.
        yield from batch.column(0).to_pylist()


def _index(value: Any) -> int:
    """The row's index as an integer, for seeds; a text that is no number is hashed. Raises
    ValueError for whatever else is no number.
    """
    try:
        if not isinstance(value, bool):
            return int(value)
    except (TypeError, ValueError, OverflowError):
        if isinstance(value, (str, bytes)):
            return int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:4], "big")
    raise ValueError(f"extra_info.index is {str(value)[:40]}: number the rows")


def _demonstration(extra_info: Mapping[str, Any]) -> str:
    """`extra_info.demonstration`; empty without one."""
    value = extra_info.get("demonstration")
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"extra_info.demonstration is a {type(value).__name__}: write a good answer as text"
        )
    return value or ""


def _field(struct: Mapping[str, Any], column: str, name: str) -> Any:
    # datasets fills fields that only other files have with None
    value = struct.get(name)
    if value is None:
        raise ValueError(f"{column}.{name} is missing: {FIX}")
    return value
