"""A step's rows in memory instead of verl's transfer queue."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from rltf_verl.adapters.queue.columns import EPISODE_FACTS, ragged


def facts_of(rewards: Sequence[float], size: int = 2, **columns: Sequence[float]) -> torch.Tensor:
    """[M, F] facts of a line with these rewards; `columns`: other facts of each turn."""
    facts = torch.full((size, len(EPISODE_FACTS)), float("nan"))
    for k, reward in enumerate(rewards):
        known = {"reward": reward, "graded": reward, "correct": reward == 1}
        known |= {name: values[k] for name, values in columns.items()}
        facts[k] = torch.tensor([float(known.get(name, 0.0)) for name in EPISODE_FACTS])
    return facts


class StepQueue:
    """The queue of one batch, and of what is put into other partitions (`others`; `fetched`: names
    of columns that were read there).

    Args:
        patch: puts it in the place of verl's.
        batch: its keys and tags.
        columns: name -> the value of each row.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, batch: KVBatchMeta, columns: Mapping[str, Sequence[Any]]
    ) -> None:
        self.batch, self.columns = batch, columns
        self.dtypes: dict[str, torch.dtype] = {}
        self.written: list[dict[str, torch.Tensor]] = []
        self.others: dict[str, dict[str, dict[str, torch.Tensor]]] = {}
        self.fetched: list[str] = []
        patch.setattr(tq, "kv_batch_get", self._get)
        patch.setattr(tq, "kv_batch_put", self._put)
        patch.setattr(tq, "kv_list", lambda _: self.others)
        patch.setattr(tq, "kv_clear", self._clear)

    def rows(self, partition: str, keys: Any, fields: Any) -> dict[str, torch.Tensor]:
        """Columns of rows of another partition."""
        rows = [self.others[partition][key] for key in keys]
        return {name: ragged([row[name] for row in rows]) for name in fields}

    def _get(self, keys: Any, partition_id: str, select_fields: Any) -> dict[str, torch.Tensor]:
        if partition_id != self.batch.partition_id:
            self.fetched += select_fields
            return self.rows(partition_id, keys, select_fields)
        at = [self.batch.keys.index(key) for key in keys]
        return {
            name: ragged(
                [torch.as_tensor(self.columns[name][i]).to(self.dtypes.get(name)) for i in at]
            )
            for name in select_fields
        }

    def _put(self, keys: Any, partition_id: str, fields: Any) -> KVBatchMeta:
        if partition_id != self.batch.partition_id:
            rows = self.others.setdefault(partition_id, {})
            for name, column in fields.items():
                for key, value in zip(keys, column.unbind(), strict=True):
                    rows.setdefault(key, {})[name] = value
            return KVBatchMeta(keys, [{} for _ in keys], partition_id, list(rows[keys[0]]))
        self.written.append(dict(fields.items()))
        return self.batch

    def _clear(self, keys: Any, partition_id: str) -> None:
        for key in keys:
            del self.others[partition_id][key]
