"""The folder of an evaluation: what it is of, its episodes, what is missing."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rltf_verl.data.questions import Question
from rltf_verl.tools.evaluate.play import Place, Player, Record, finished
from rltf_verl.tools.evaluate.settings import Evaluation
from rltf_verl.types import Episode

OPTIONS = {"step": "--step", "prompt_budget": "--max-prompt-chars"}
"""Settings that are options of the command line."""


class Folder:
    """One evaluation on disk. More samples and more problems may be added to it, anything else is
    another evaluation.

    Args:
        path: made if needed.
        evaluation: settings.
        questions: rows of the dataset.
        samples: episodes per row.

    Raises:
        ValueError: the folder holds another evaluation; names what differs.
    """

    def __init__(
        self, path: Path, evaluation: Evaluation, questions: Sequence[Question], samples: int
    ) -> None:
        self._evaluation, self._questions, self._samples = evaluation, questions, samples
        self._log = path / "episodes"
        self._about = path / "evaluation.json"
        self.num_episodes = len(questions) * samples
        self._now = json.loads(
            json.dumps({"evaluation": evaluation.facts(), "rows": list(map(_digest, questions))})
        )
        self._rows_before = self._checked()

    def _checked(self) -> list[str]:
        """Rows that the folder is of. Raises ValueError."""
        if not self._about.exists():
            return []
        before, now = json.loads(self._about.read_text(encoding="utf-8")), self._now
        differ = list(_differences("", before["evaluation"], now["evaluation"]))
        if any(a != b for a, b in zip(now["rows"], before["rows"], strict=False)):
            differ.append("another dataset")
        if differ:
            folder = self._about.parent
            raise ValueError(
                f"--out {folder}: holds another evaluation ({'; '.join(differ)}); choose a new"
                " folder, or say the same as there"
            )
        rows: list[str] = before["rows"]
        return rows

    def known(self) -> dict[Place, Record]:
        """Episodes that are played."""
        return finished(self._log, len(self._questions), self._samples)

    def player(self, ended: Callable[[Episode | None], None]) -> Player:
        """Plays what is missing; from here on the folder is of this evaluation. Raises ValueError,
        as `Player`.
        """
        player = Player(self._evaluation, self._questions, self._samples, self._log, ended)
        rows = max(self._rows_before, self._now["rows"], key=len)
        unfinished = self._about.with_name(f".{self._about.name}")
        unfinished.write_text(
            json.dumps({**self._now, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
        unfinished.replace(self._about)
        return player

    def episodes(self) -> list[Record]:
        """What there are results of, by row and episode, whatever order they ended in."""
        return [
            record
            for _, record in sorted(
                self.known().items(), key=lambda item: (int(item[0][0]), item[0][1])
            )
        ]

    def by_source(self, episodes: Sequence[Record]) -> dict[str, list[Record]]:
        """The episodes, apart by `data_source` as verl's metrics are."""
        apart: dict[str, list[Record]] = defaultdict(list)
        for record in episodes:
            apart[self._questions[int(record["uid"])].source].append(record)
        return dict(sorted(apart.items()))


def _differences(block: str, before: Any, now: Any) -> Iterator[str]:
    """A line per setting, as it is said on the command line."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            key = f"{block}.{name}" if block else name
            yield from _differences(key, before.get(name), now.get(name))
    elif before != now and block == "episode.horizon":
        yield f"--rounds: {before - 1} there, {now - 1} here"
    elif before != now:
        yield f"{OPTIONS.get(block, block)}: {before} there, {now} here"


def _digest(question: Question) -> str:
    problem = question.problem
    said = [
        list(question.messages),
        problem.env,
        problem.index,
        dict(problem.data),
        problem.reference,
    ]
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()
