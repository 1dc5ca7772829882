"""Chat logs in which users corrected the assistant -> train.parquet and test.parquet:
`rltf data corrections`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shlex
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track

from rltf_verl.data.provenance import versions, write_table
from rltf_verl.data.schema import CORRECTIONS, SCHEMA, row_of, text_of
from rltf_verl.jsonl import numbered, parsed
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.runtime import run_to_end
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.redaction import MARK, hide
from rltf_verl.texts import (
    clean_text,
    counted,
    one_line,
    without_chat_tokens,
    without_thoughts,
)
from rltf_verl.tools.data.correction_rules import rule_of
from rltf_verl.types import Problem

SPLITS = ("train", "test")
LONGEST, MOST_MESSAGES = 200_000, 500
"""Characters and messages of a conversation: each correction has a copy of all that came before."""
TEST_SHARE = 10
"""One of so many conversations goes to the test split."""
SIMILAR = 0.8
"""Jaccard similarity of the questions, and of the corrections, from which two are duplicates."""
SHINGLE = 3
"""Words of a shingle."""
MOST_COMPARED = 10_000
"""Characters of a conversation, its last ones, that are compared for duplicates."""
MOST_ALIKE = 8
"""Corrections that are found by one shingle, the first ones. Without a bound the comparisons grow
as the square of those to one question: hours for ten thousand. A pair that shares no other rare
shingle may both stay.
"""

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_SHARE_GPT = {"human": "user", "gpt": "assistant"}
"""Names of its `from`."""
MOST_BEFORE = 4000
"""Characters of what was said before a question that a judge reads, the last ones."""
# An e-mail address; an IPv4 address that is not of a private network or this machine's.
_ADDRESS = re.compile(
    r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,9}[a-zA-Z]{2,63}\b"
    r"|(?<![\d.])(?!(?:0|10|127|192\.168)\.)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}"
    r"(?:25[0-5]|2[0-4]\d|1?\d?\d)(?!\.?\d)"
)

Episode = Mapping[str, Any]
"""`split`, `prompt` (x0), and the fields of `extra_info.task`: `id`, `question` (the last message
of x0), `before` (the end of what stands before it), `attempt` (y1), `correction` (f),
`answer_after` (y2; None if the conversation ends with f), `corrected_again` (None without an answer
to y2), `rule`.
"""


class Said(NamedTuple):
    """A message, or several of one role in a row."""

    role: str
    text: str
    """Without secrets and addresses."""
    corrected: bool | None
    """The file's own label."""


class Exchange(NamedTuple):
    """What a judge reads."""

    question: str
    attempt: str
    correction: str
    before: str = ""
    """What was said before the question."""

    @property
    def has_words(self) -> bool:
        """A label and a judge can speak of it; the rules name what is empty."""
        return all(text.strip() for text in self[:3])


class Found(NamedTuple):
    """A conversation, or a user turn in it that follows an answer."""

    where: str
    fate: str
    """Of a conversation: `read` or `refused`; of a turn: `taken`, `left`, `duplicate` or
    `without`.
    """
    why: str = ""
    """The name of the rule, or what is wrong with the conversation."""
    text: str = ""
    """The turn."""
    episode: Episode | None = None
    """Of a correction."""


def find_corrections(
    path: Path, without: Collection[str] = (), judge: Judge | None = None
) -> list[Found]:
    """Everything in a file of conversations, in order.

    Args:
        path: parquet with a column `messages`, JSON lines, or a list of JSON.
        without: ids of corrections to leave out.
        judge: is asked about each turn without a label, with a bar on stderr; the rules decide
            where it has no verdict.

    Raises:
        ValueError: no parquet file, an id that no correction of the file has, or a judge that
            cannot be asked: a package or the API key is missing.
        OSError: the file cannot be read.
    """
    read = [_read(where, record) for where, record in _records(path)]
    judged = run_to_end(_ask(judge, [said for _, said in read])) if judge else {}
    found = [one for head, said in read for one in (head, *_read_turns(head, said, judged))]
    fates = _fates([turn.episode for turn in found if turn.episode], without)
    found = [turn._replace(fate=next(fates)) if turn.episode else turn for turn in found]
    unknown = {*without} - {turn.episode["id"] for turn in found if turn.episode}
    if unknown:
        raise ValueError(f"--without {min(unknown)}: no correction in {path} has this id")
    return found


def write_corrections(
    found: Sequence[Found], source: Path, folder: Path, words: Sequence[str] = ()
) -> dict[str, int]:
    """Write the corrections that were taken as train.parquet and test.parquet.

    Args:
        found: by `find_corrections`.
        source: the file of conversations.
        folder: of the parquet files.
        words: the rest of the command that found them, for the record.

    Returns:
        Rows by split.

    Raises:
        ValueError: there are none.
    """
    taken = [turn.episode for turn in found if turn.fate == "taken" and turn.episode]
    if not taken:
        raise ValueError(
            f"{source}: no correction to write; --show 20 prints what each user turn was taken for,"
            ' and "corrected": true in a message overrides the rules'
        )
    facts = {
        "command": shlex.join(["rltf", "data", "corrections", source.name, *map(hide, words)]),
        "env": CORRECTIONS,
        "versions": versions(),
    }
    for split in SPLITS:
        episodes = [episode for episode in taken if episode["split"] == split]
        rows = [_row(episode, index) for index, episode in enumerate(episodes)]
        table = pa.Table.from_pylist(rows, SCHEMA)
        write_table(table, folder / f"{split}.parquet", {**facts, "split": split})
    return {split: sum(one["split"] == split for one in taken) for split in SPLITS}


def _row(episode: Episode, index: int) -> dict[str, Any]:
    task = {key: value for key, value in episode.items() if key not in ("prompt", "split")}
    row = row_of(Problem(CORRECTIONS, index, task, reference=""), "", episode["split"])
    return row | {"prompt": episode["prompt"]}


def _records(path: Path) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Place and content of each conversation; None for what is no JSON object."""
    if path.suffix == ".parquet":
        return [(f"row {k}", row) for k, row in enumerate(pq.read_table(path).to_pylist())]
    data = path.read_bytes()
    if data.lstrip().startswith(b"["):
        with suppress(ValueError, RecursionError):  # else it holds lines
            entries = enumerate(json.loads(data), 1)
            return [(f"entry {k}", parsed(json.dumps(one).encode())) for k, one in entries]
    return [(f"line {k}", parsed(line)) for k, line in numbered(data)]


def _read(where: str, record: Mapping[str, Any] | None) -> tuple[Found, list[Said]]:
    """A conversation and its messages, none if it cannot be read."""
    try:
        return Found(where, "read"), _read_conversation(record)
    except ValueError as error:
        return Found(where, "refused", one_line(str(error), 300)), []


def _read_conversation(record: Mapping[str, Any] | None) -> list[Said]:
    """Its messages, one where a role speaks several times in a row. Raises ValueError."""
    record = record or {}
    given = record.get("messages") or record.get("conversations")
    if not (given and isinstance(given, list)):
        raise ValueError("no JSON object with a list `messages`, or `conversations` as ShareGPT's")
    messages: list[Said] = []
    for number, one in enumerate(given, 1):
        message = _read_message(f"message {number}", one, record.get("corrected"))
        if messages and message.role == "system" != messages[-1].role:
            raise ValueError(f"message {number} is a system's, and not at the start: take it out")
        if messages and messages[-1].role == message.role:
            first = messages.pop()
            label = message.corrected if first.corrected is None else first.corrected
            message = Said(message.role, f"{first.text}\n\n{message.text}", label)
        messages.append(message)
    if len(given) > MOST_MESSAGES or sum(len(one.text) for one in messages) > LONGEST:
        raise ValueError(f"more than {MOST_MESSAGES} messages or {LONGEST} characters: split it")
    return messages


def _read_message(where: str, message: Any, corrected: Any) -> Said:
    """A message; `corrected` is the conversation's label. Raises ValueError."""
    if isinstance(message, Mapping) and "from" in message:
        role = _SHARE_GPT.get(str(message["from"]), message["from"])
        message = {**message, "role": role, "content": message.get("value")}
    if not isinstance(message, Mapping) or str(message.get("role")) not in _ROLES:
        raise ValueError(f"{where} has none of the roles {', '.join(_ROLES)}; tools are not read")
    if message.get("tool_calls") or message.get("content") is None:
        raise ValueError(f"{where} calls a tool or has no content, and only text is read")
    corrected = corrected if message.get("corrected") is None else message["corrected"]
    if not isinstance(corrected, bool | None):
        raise ValueError(f"{where}: corrected is {corrected!r}: write true or false")
    role, text = _ROLES[message["role"]], text_of(message["content"])
    text = without_thoughts(text) if role == "assistant" else text
    clean = hide(without_chat_tokens(clean_text(text)))
    return Said(role, _ADDRESS.sub(MARK, clean), corrected)


def _exchanges(messages: Sequence[Said]) -> dict[int, Exchange]:
    """Each user turn after an answer to a user, by the number of its message."""
    # Roles alternate behind a system's message.
    return {
        k: Exchange(
            messages[k - 2].text, messages[k - 1].text, one.text, _before(messages[: k - 2])
        )
        for k, one in enumerate(messages)
        if k >= 2 and messages[k - 2].role == one.role == "user"
    }


def _before(messages: Sequence[Said]) -> str:
    return "\n\n".join(f"{one.role}: {one.text}" for one in messages)[-MOST_BEFORE:]


async def _ask(judge: Judge, conversations: Sequence[Sequence[Said]]) -> dict[Exchange, bool]:
    """Verdicts of the judge on turns without a label."""
    judge.require_client()
    # Equal ones once.
    exchanges = {
        one
        for said in conversations
        for k, one in _exchanges(said).items()
        if said[k].corrected is None and one.has_words
    }
    verdicts: dict[Exchange, bool] = {}
    failures: list[str] = []
    # The deadline of a call counts its wait in the client: turns wait here.
    slots = asyncio.Semaphore(judge.settings.limits.max_concurrency)

    async def ask(one: Exchange) -> None:
        async with slots:
            try:
                verdicts[one] = await judge.says_yes("corrections/corrects", one._asdict())
            except JudgeUnavailable as error:
                failures.append(error.cause)

    console = Console(stderr=True)
    asked = asyncio.as_completed(map(ask, exchanges))
    for done in track(
        asked, "judge", len(exchanges), console=console, disable=not console.is_terminal
    ):
        await done
    if failures:
        turns = counted(len(failures), "turn")
        console.out(f"judge: no verdict on {turns}, the rules decide: {failures[0]}")
    return verdicts


def _read_turns(
    conversation: Found, messages: Sequence[Said], judged: Mapping[Exchange, bool]
) -> Iterator[Found]:
    """Each user turn after an answer to a user."""
    verdicts = {
        k: _verdict(one, messages[k].corrected, judged) for k, one in _exchanges(messages).items()
    }
    for k, (corrects, rule) in verdicts.items():
        where = f"{conversation.where}, turn {k // 2 + 1}"
        turn = Found(where, "left", rule, messages[k].text)
        if corrects:
            again, _ = verdicts.get(k + 2, (None, ""))
            turn = turn._replace(fate="taken", episode=_episode(messages, k, rule, again))
        yield turn


def _verdict(
    exchange: Exchange, label: bool | None, judged: Mapping[Exchange, bool]
) -> tuple[bool, str]:
    """True if the turn corrects the answer; and why."""
    if label is not None and exchange.has_words:
        return label, f"corrected: {json.dumps(label)}"
    if exchange in judged:
        return judged[exchange], "judge"
    rule = rule_of(*exchange[:3])
    return rule.corrects, rule.name


def _episode(messages: Sequence[Said], k: int, rule: str, again: bool | None) -> Episode:
    """The correction in message `k`."""
    prompt = [{"role": one.role, "content": one.text} for one in messages[: k - 1]]
    attempt, correction = messages[k - 1].text, messages[k].text
    after = next((one.text for one in messages[k + 1 : k + 2] if one.role == "assistant"), None)
    # Continuations of a conversation begin alike, and stay in its split.
    opening = next(one.text for one in messages if one.role == "user").casefold().split()
    return {
        "split": SPLITS[int(_digest(opening), 16) % TEST_SHARE == 0],
        "prompt": prompt,
        "id": _digest([prompt, attempt, correction]),
        "question": messages[k - 2].text,
        "before": _before(messages[: k - 2]),
        "attempt": attempt,
        "correction": correction,
        "answer_after": after,
        "corrected_again": again,
        "rule": rule,
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _fates(episodes: Sequence[Episode], without: Collection[str]) -> Iterator[str]:
    """`taken`, `without`, or `duplicate`: similar to one before that is none."""
    shingles = [_shingles_of(episode) for episode in episodes]
    frequency = Counter(chain.from_iterable(f | asked for f, asked in shingles))
    seen: dict[int, list[int]] = defaultdict(list)
    for k, (episode, sets) in enumerate(zip(episodes, shingles, strict=True)):
        both = sorted(sets[0] | sets[1], key=lambda one: (frequency[one], one))
        # Two sets with a Jaccard similarity of s share one of their first (1 - s) n + 1 elements,
        # in any order that is the same for both; one more for the rounding. Rare ones come first:
        # few have them.
        first = both[: int((1 - SIMILAR) * len(both)) + 2]
        near = {other for shingle in first for other in seen[shingle]}
        is_duplicate = any(all(map(_similar, sets, shingles[other])) for other in near)
        for shingle in first:
            if len(seen[shingle]) < MOST_ALIKE and not is_duplicate:
                seen[shingle].append(k)
        yield "duplicate" if is_duplicate else "without" if episode["id"] in without else "taken"


def _shingles_of(episode: Episode) -> tuple[set[int], set[int]]:
    """Of the correction, and of what was asked."""
    asked = "\n".join(one["content"] for one in episode["prompt"] if one["role"] != "system")
    return _shingles(0, episode["correction"]), _shingles(1, asked)


def _shingles(kind: int, text: str) -> set[int]:
    found = re.findall(r"\w+|[^\w\s]", text[-MOST_COMPARED:].casefold())
    # Unlike those of texts, hashes of integers are the same in each process.
    words = [zlib.crc32(word.encode()) for word in found]
    starts = range(max(len(words) - SHINGLE, 0) + 1)
    return {hash((kind, *words[k : k + SHINGLE])) for k in starts}


def _similar(one: set[int], other: set[int]) -> bool:
    shared = len(one & other)
    return shared >= SIMILAR * (len(one) + len(other) - shared)
