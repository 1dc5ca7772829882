"""A provider of your own: people give the feedback, in a folder of attempts that wait and of answers.

    rltf/feedback=own rltf.feedback.provider=./human.py:HumanProvider +rltf.feedback.inbox=FOLDER
    +rltf.feedback.deadline_s=3600

`rltf plan` waits ten seconds for an answer to each of its attempts; plan with
`rltf/feedback=try_again`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Annotated

from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.judge_prompt import as_text
from rltf_verl.jsonl import append_lines, numbered, parse
from rltf_verl.kinds import Within
from rltf_verl.types import Feedback


class HumanProvider(FeedbackProvider):
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

    """

    name = "human"
    constant = False
    subject = "attempt"

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
        """The answer. Raises FeedbackUnavailable at the deadline, and if it was declined."""
        key, deadline = call_key(request), time.monotonic() + self._deadline_s
        while not self._answers.has(key):
            self._ask_once(key, request)
            left = deadline - time.monotonic()
            if left <= 0:
                raise FeedbackUnavailable(
                    self.name,
                    f"no answer for {key} in {self._inbox} within {self._deadline_s:g} s; answer"
                    " sooner, or raise rltf.feedback.deadline_s",
                )
            await asyncio.sleep(min(self._poll_s, left))
        text = self._answers.text(key)
        if not text:
            raise FeedbackUnavailable(self.name, f"{key} in {self._inbox} was declined")
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
            append_lines(self._inbox / f"pending.{os.getpid()}.jsonl", [pending])
        except OSError as error:
            raise FeedbackUnavailable(
                self.name, f"rltf.feedback.inbox={self._inbox} cannot be written: {error}"
            ) from error
        self._asked.add(key)


def call_key(request: FeedbackRequest) -> str:
    """Hash of the conversation so far: the same attempt at the same problem has the same id,
    whichever run and episode it comes from.
    """
    problem = request.problem
    turns = [
        (turn.attempt.text, turn.feedback.text if turn.feedback else None) for turn in request.turns
    ]
    asked = [problem.env, problem.data, problem.reference, list(request.messages), turns]
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _Answers:
    """What people have answered so far, in files that grow and are replaced.

    The folder is read once per `poll_s` at most, however many episodes wait.

    Args:
        folder: with `answers*.jsonl`, `{"id": …, "text": …}` a line; the last answer to an id
            counts.
        poll_s: seconds between two looks.
    """

    def __init__(self, folder: Path, poll_s: float) -> None:
        self._folder, self._poll_s = folder, poll_s
        self._looked = -poll_s
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._texts: dict[str, str] = {}

    def has(self, key: str) -> bool:
        """Whether there is an answer."""
        if key not in self._texts and time.monotonic() - self._looked >= self._poll_s:
            self._looked = time.monotonic()
            for path in sorted(self._folder.glob("answers*.jsonl")):
                with contextlib.suppress(OSError):  # replaced just now; the next look reads it
                    self._read(path)
        return key in self._texts

    def text(self, key: str) -> str:
        """The answer; empty if it was declined."""
        return self._texts[key]

    def _read(self, path: Path) -> None:
        """A file that has changed, up to the last line end: the rest is still being written."""
        stat = path.stat()
        if self._sizes.get(path) == (stat.st_size, stat.st_mtime_ns):
            return
        self._sizes[path] = stat.st_size, stat.st_mtime_ns
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        for answer in parse(numbered(whole), path):
            if "id" in answer:
                self._texts[str(answer["id"])] = str(answer.get("text") or "").strip()
