r"""Sources of mathematical problems: the sets of the release, by name, and files of one's own.

Everything is read by `datasets.load_dataset`: from the hub, or from a local file or folder with the
same columns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltf_verl.envs.files import BUILDERS, load_file
from rltf_verl.envs.text.boxed import last_box
from rltf_verl.registry import described, unknown
from rltf_verl.texts import counted, split_words

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]
Field = Callable[[Row], "str | None"]

SUBJECTS = split_words(
    "algebra counting_and_probability geometry intermediate_algebra number_theory prealgebra "
    "precalculus"
)


@dataclass(frozen=True, slots=True)
class Item:
    """One problem as its source has it."""

    question: str
    answer: str
    solution: str = ""
    """The worked solution, if the source has one."""


def column(name: str) -> Field:
    """The column as text; numbers as digits."""
    return lambda row: None if row.get(name) is None else str(row[name])


def message(name: str) -> Field:
    """The first message of a column that holds a chat, or the column itself if it is text."""

    def read(row: Row) -> str | None:
        chat = row.get(name)
        if isinstance(chat, list) and chat:
            return str(chat[0]["content"])
        return None if chat is None else str(chat)

    return read


def boxed(row: Row) -> str | None:
    r"""Contents of the solution's last `\boxed{}`."""
    return None if row.get("solution") is None else last_box(str(row["solution"]))


def behind_marks(row: Row) -> str | None:
    """GSM8K's answer: what follows the last `####`, without the commas in numbers."""
    _, marks, answer = str(row.get("answer") or "").rpartition("####")
    return answer.strip().removeprefix(":").replace(",", "").strip() if marks else None


def ground_truth(row: Row) -> str | None:
    """verl's own column of the reference answer."""
    answer = (row.get("reward_model") or {}).get("ground_truth")
    return None if answer is None else str(answer)


@dataclass(frozen=True, slots=True)
class Source:
    """A set of problems: where it lies and what its columns mean."""

    hub: str
    """Repository on the hub."""
    question: Field
    answer: Field
    solution: Field | None = None
    parts: tuple[tuple[str | None, str], ...] = ((None, "train"),)
    """(config, split) pairs; all of them, one after the other."""
    test_sets: tuple[str, ...] = ("math500", "aime2024")
    """The release's test sets for training on it."""
    samples: int = 1
    """Copies of each problem in a test set."""
    first: int | None = None
    """Only so many rows; a negative number leaves the last ones out."""
    keep: Callable[[Row], bool] | None = None
    own: tuple[str, ...] = ()
    """Columns of question and answer in a user's own file."""


_DEEPMATH = Source(
    "zwhe99/DeepMath-103K",
    column("question"),
    column("final_answer"),
    column("r1_solution_1"),
    # The release leaves the last 500 out.
    first=-500,
)
_GSM8K = Source(
    "openai/gsm8k",
    column("question"),
    behind_marks,
    column("answer"),
    (("main", "train"),),
)

SOURCES: dict[str, Source] = {
    "dapo": Source("ftajwar/deduplicated_dapo_dataset", message("prompt"), column("answer")),
    "deepmath": _DEEPMATH,
    "deepmath_hard": replace(
        _DEEPMATH, test_sets=("beyondaime",), keep=lambda row: float(row["difficulty"]) > 6
    ),
    "deepscaler": Source(
        "agentica-org/DeepScaleR-Preview-Dataset",
        column("problem"),
        column("answer"),
        column("solution"),
        test_sets=("beyondaime",),
    ),
    "polaris": Source("POLARIS-Project/Polaris-Dataset-53K", column("problem"), column("answer")),
    "math": Source(
        "EleutherAI/hendrycks_math",
        column("problem"),
        boxed,
        column("solution"),
        tuple((subject, split) for subject in SUBJECTS for split in ("train", "test")),
    ),
    "gsm8k": _GSM8K,
}

TEST_SETS: dict[str, Source] = {
    "math500": Source(
        "HuggingFaceH4/MATH-500",
        column("problem"),
        column("answer"),
        column("solution"),
        ((None, "test"),),
        samples=2,
    ),
    # The repository repeats the same 30 problems.
    "aime2024": Source(
        "BytedTsinghua-SIA/AIME-2024", message("prompt"), ground_truth, samples=4, first=30
    ),
    "aime2025": Source(
        "math-ai/aime25", column("problem"), column("answer"), None, ((None, "test"),), samples=4
    ),
    "beyondaime": Source(
        "ByteDance-Seed/BeyondAIME", column("problem"), column("answer"), None, ((None, "test"),)
    ),
    "gsm8k": replace(_GSM8K, parts=(("main", "test"),)),
}


def find_source(
    key: str, name: str, known: Mapping[str, Source], fields: tuple[str, str]
) -> tuple[Source, str | None]:
    """The source called `name`, and the file if that is what `name` is.

    Args:
        key: config key, for the error.
        name: one of `known`, or a local file with the columns `fields`.
        known: sources by name.
        fields: columns with the question and the answer of a file.

    Raises:
        ValueError: neither a known name nor a file.
    """
    if name in known:
        return known[name], None
    if Path(name).suffix in BUILDERS or Path(name).exists():
        source = Source(
            name,
            message(fields[0]),
            column(fields[1]),
            column("solution"),
            test_sets=(),
            own=fields,
        )
        return source, name
    raise unknown(key, name, [*known, "a .parquet, .json, .jsonl or .csv file"])


def read_items(
    key: str, name: str, source: Source, path: str | None, seed: int | None
) -> Iterator[Item]:
    """The problems of a source, in a random order if there is a seed; rows without question or
    answer are left out.

    Args:
        key: config key that chose the source, for errors.
        name: its name, for errors.
        source: what to read.
        path: a local file or folder instead of the hub.
        seed: of `datasets.Dataset.shuffle`, as the release; None keeps the order.

    Raises:
        ValueError: it cannot be had, or its columns are others.
    """
    rows = _load(key, name, source, path)
    for field in source.own:
        _require_text(key, name, rows, field)
    # A local copy may be the part that is wanted already.
    if source.first is not None and (
        path is None or source.first >= 0 or len(rows) > -source.first
    ):
        rows = rows.select(range(len(rows))[: source.first])
    if source.keep is not None:
        rows = _keep(key, name, rows, source.keep)
    if seed is not None:
        rows = rows.shuffle(seed=seed)
    has_items = False
    for row in rows:
        question, answer = source.question(row), source.answer(row)
        if question and answer and answer.strip():
            has_items = True
            solution = (source.solution(row) if source.solution else None) or ""
            yield Item(question, _unbox(answer.strip()), solution)
    if len(rows) and not has_items:
        raise ValueError(
            f"{key}={name}: no row has a question and an answer; columns:"
            f" {', '.join(rows.column_names)}. For a file of your own name them with"
            " rltf.env.question_field and rltf.env.answer_field"
        )


def _require_text(key: str, name: str, rows: Any, field: str) -> None:
    """Refuse a row of a user's own file whose question or answer is there and no text; without one
    it is left out, and a line says how many are.
    """
    values = list(rows[field]) if field in rows.column_names else []
    if num_null := sum(value is None for value in values):
        left_out = counted(num_null, "row")
        logger.warning("%s=%s: left out, as %s is null: %s", key, name, field, left_out)
    for i, value in enumerate(values, 1):
        first = value[0] if isinstance(value, list) and value else None
        chat = isinstance(first, dict) and isinstance(first.get("content"), str)
        nested = isinstance(value, (dict, list)) and not chat
        if nested or (isinstance(value, str) and not value.strip()):
            raise ValueError(
                f"{key}={name}, row {i}: {field}={str(value)[:40]!r} must be text, and not empty;"
                " fix or drop the row"
            )


def normalised(question: str) -> str:
    """A problem's text by which two copies of it are recognised: without case, blanks, dollars and
    backslashes.
    """
    return re.sub(r"[\s$\\]+", "", question.casefold()).rstrip(".?!:")


def _unbox(answer: str) -> str:
    inner = last_box(answer)
    # Only where the box is all of it: `\boxed{1} or \boxed{2}` stays.
    return inner if inner is not None and answer == f"\\boxed{{{inner}}}" else answer


def _keep(key: str, name: str, rows: Any, keep: Callable[[Row], bool]) -> Any:
    try:
        return rows.select([i for i, row in enumerate(rows) if keep(row)])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{key}={name}: no usable column {error}; columns: {', '.join(rows.column_names)}"
        ) from error


def _load(key: str, name: str, source: Source, path: str | None) -> Any:
    import datasets

    where = path or source.hub
    try:
        parts = [
            _load_part(where, config, split, local=path is not None)
            for config, split in _parts(source, path)
        ]
        return datasets.concatenate_datasets(parts)
    # No network, no such repository, no such split, a file of another format …
    except Exception as error:
        fix = "it must be a file or a folder that datasets.load_dataset reads"
        if path is None:
            fix = (
                "copy it and name the file or folder (rltf.env.path, rltf.env.test_paths), or reach"
                " the hub through a mirror (HF_ENDPOINT=https://…), or use what an earlier run"
                " downloaded (HF_HUB_OFFLINE=1)"
            )
        raise ValueError(
            f"{key}={name}: cannot load {where} ({described(error)}): {fix}"
        ) from error


def _parts(source: Source, path: str | None) -> Sequence[tuple[str | None, str]]:
    return source.parts if path is None or Path(path).is_dir() else ((None, "train"),)


def _load_part(where: str, config: str | None, split: str, *, local: bool) -> Any:
    import datasets

    if not local:
        return datasets.load_dataset(where, config, split=split)
    path = Path(where)
    if not path.is_dir():
        return load_file(path)
    if config is not None and config not in datasets.get_dataset_config_names(where):
        # A plain folder with one subfolder per config, without the card that declares them.
        subfolder = config if (path / config).is_dir() else None
        return datasets.load_dataset(where, data_dir=subfolder, split=split)
    return datasets.load_dataset(where, config, split=split)
