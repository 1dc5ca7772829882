"""Rows in verl's form, and files of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def verl_row(question: str = "1 + 1?", truth: Any = "2", **fields: Any) -> dict[str, Any]:
    """The least that verl's reward functions read."""
    return {
        "data_source": "mine/sums",
        "prompt": [{"role": "user", "content": question}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": 5},
        **fields,
    }


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path
