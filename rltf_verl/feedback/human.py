"""People give the feedback: a folder with the attempts that wait, and whatever they answer
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Annotated

from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable, Subject
from rltf_verl.feedback.calls import call_key
from rltf_verl.feedback.judge_prompt import as_text
from rltf_verl.jsonl import append_line, parse_lines
from rltf_verl.kinds import Within
from rltf_verl.types import Feedback


class HumanProvider:
    """Writes each attempt to `<inbox>/pending.<process>.jsonl` and looks for its answer in
    `<inbox>/answers*.jsonl`.

    An answer is a line `{"id": …, "text": …}` with the id of the pending line; a text of null
    declines. It may come in any order, from any tool that appends whole lines, and before it is
    asked for: the id stands for the conversation, so the same attempt is never asked about twice.

    Args:
        inbox: the folder, made when missing; must be one that all nodes see.
        deadline_s: how long an attempt waits.
        poll_s: seconds between looks at the folder.
        show_reference: show the reference answer to the people.

    Raises:
        ValueError: a value that cannot be.
    """

    name = "human"
    constant = False
    subject: Subject = "attempt"

    def __init__(
        self,
        inbox: str,
        deadline_s: Annotated[float, Within(above=0, most=1e7)] = 3600.0,
        poll_s: Annotated[float, Within(above=0, most=3600)] = 1.0,
        show_reference: bool = False,
    ) -> None:
        self.sees_reference = bool(show_reference)
        self._inbox, self._deadline_s, self._poll_s = Path(inbox), deadline_s, poll_s
        self._answers = _Answers(self._inbox, poll_s)
        self._asked: set[str] = set()

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The answer, when it comes. Raises FeedbackUnavailable at the deadline or if somebody
        declined.
        """
        key, deadline = call_key(request), time.monotonic() + self._deadline_s
        while not self._answers.has(key):
            self._ask_once(key, request)
            left = deadline - time.monotonic()
            if left <= 0:
                raise FeedbackUnavailable(
                    self.name,
                    f"no one answered {key} in {self._inbox} within {self._deadline_s:g} s; answer"
                    " sooner, or raise rltf.feedback.deadline_s",
                )
            await asyncio.sleep(min(self._poll_s, left))
        text = self._answers.text(key)
        if not text:
            raise FeedbackUnavailable(
                self.name, f"somebody declined to answer {key} in {self._inbox}"
            )
        return Feedback(text, self.name, sees_reference=self.sees_reference)

    def _ask_once(self, key: str, request: FeedbackRequest) -> None:
        if key in self._asked:
            return
        turn = request.turns[-1]
        pending = {
            "id": key,
            "env": request.problem.env,
            "index": request.problem.index,
            "turn": len(request.turns),
            "question": as_text(request.messages),
            "attempt": turn.attempt.text,
            "correct": turn.grade.correct,
            "reference": request.problem.reference if self.sees_reference else None,
            "before": [
                [t.attempt.text, t.feedback.text if t.feedback else None]
                for t in request.turns[:-1]
            ],
            "answer_until": time.time() + self._deadline_s,
        }
        try:
            self._inbox.mkdir(parents=True, exist_ok=True)
            append_line(self._inbox / f"pending.{os.getpid()}.jsonl", pending)
        except OSError as error:
            raise FeedbackUnavailable(
                self.name, f"rltf.feedback.inbox={self._inbox} cannot be written: {error}"
            ) from error
        self._asked.add(key)


class _Answers:
    """What people have answered so far, in files that grow while we look.

    The folder is looked at once per `poll_s` at most, however many episodes wait.

    Args:
        folder: with `answers*.jsonl`, `{"id": …, "text": …}` a line; a later answer to the same id
            counts.
        poll_s: seconds between two looks.
    """

    def __init__(self, folder: Path, poll_s: float) -> None:
        self._folder, self._poll_s = folder, poll_s
        self._looked = -poll_s
        self._read: dict[Path, int] = {}
        self._texts: dict[str, str] = {}

    def has(self, key: str) -> bool:
        """Whether somebody has answered."""
        if key not in self._texts and time.monotonic() - self._looked >= self._poll_s:
            self._looked = time.monotonic()
            self._look()
        return key in self._texts

    def text(self, key: str) -> str:
        """The answer; empty if somebody declined."""
        return self._texts[key]

    def _look(self) -> None:
        for path in sorted(self._folder.glob("answers*.jsonl")):
            # It may be replaced while we look; the next look finds it.
            with contextlib.suppress(OSError):
                self._look_at(path)

    def _look_at(self, path: Path) -> None:
        """Read what is new, up to the last line end: the rest is still being written."""
        start, size = self._read.get(path, 0), path.stat().st_size
        if size < start:  # an editor saved it anew
            start = 0
        if size == start:
            return
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(size - start)
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        for answer in parse_lines(whole, path):
            if "id" in answer:
                self._texts[str(answer["id"])] = str(answer.get("text") or "").strip()
