"""The folder of an evaluation: what it is of, its sessions, what is missing."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltf_verl.data.questions import Question
from rltf_verl.evaluate.play import Place, Player, Record, finished
from rltf_verl.evaluate.settings import Evaluation
from rltf_verl.types import Episode


class Folder:
    """One evaluation on disk. More samples and more problems may be added to it, anything else is another evaluation.

    Args:
        path: made if needed.
        evaluation: settings.
        questions: rows of the dataset.
        samples: sessions per row.

    Raises:
        ValueError: the folder holds another evaluation; names what differs.
    """

    def __init__(self, path: Path, evaluation: Evaluation, questions: Sequence[Question], samples: int) -> None:
        self._evaluation, self._questions, self._samples = evaluation, questions, samples
        self._log = path / "episodes"
        self.num_sessions = len(questions) * samples
        path.mkdir(parents=True, exist_ok=True)
        _keep(path / "evaluation.json", evaluation.facts(), [_digest(question) for question in questions])

    def known(self) -> dict[Place, Record]:
        """Sessions that are played."""
        return finished(self._log, len(self._questions), self._samples)

    def player(self, ended: Callable[[Episode | None], None]) -> Player:
        """Plays what is missing. Raises ValueError, as `Player`."""
        return Player(self._evaluation, self._questions, self._samples, self._log, ended)

    def sessions(self) -> list[Record]:
        """What there are results of, by row and session, whatever order they ended in."""
        return [record for _, record in sorted(self.known().items(), key=lambda item: (int(item[0][0]), item[0][1]))]

    def by_source(self, sessions: Sequence[Record]) -> dict[str, list[Record]]:
        """The sessions, apart by `data_source` as verl's metrics are."""
        apart: dict[str, list[Record]] = defaultdict(list)
        for record in sessions:
            apart[self._questions[int(record["uid"])].source].append(record)
        return dict(sorted(apart.items()))


def _keep(path: Path, facts: Mapping[str, Any], rows: Sequence[str]) -> None:
    """Write down what the folder is of, or hold it against what stands there."""
    now = json.loads(json.dumps(facts, default=str))
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if before is not None:
        differ = [key for key in now if now[key] != before["evaluation"].get(key)]
        if any(a != b for a, b in zip(rows, before["rows"], strict=False)):
            differ.append("dataset")
        if differ:
            raise ValueError(
                f"--out {path.parent}: holds an evaluation with another {', '.join(differ)}; choose a new folder"
            )
    kept = before["rows"] if before is not None and len(before["rows"]) > len(rows) else list(rows)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(json.dumps({"evaluation": now, "rows": kept}, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _digest(question: Question) -> str:
    problem = question.problem
    said = [list(question.messages), problem.env, problem.index, dict(problem.data), problem.reference]
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()
