"""Chat logs in which users corrected the assistant -> train.parquet and test.parquet:
`rltf data corrections`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track

from rltf_verl.data.provenance import finished, versions
from rltf_verl.data.schema import CORRECTIONS, JUDGED, LABELLED, SCHEMA, row_of, text_of
from rltf_verl.jsonl import numbered
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.runtime import run_to_end
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.kinds import shown
from rltf_verl.redaction import MARK, hide
from rltf_verl.registry import OWN_ERRORS, raised_by
from rltf_verl.texts import (
    LONGEST,
    clean_text,
    counted,
    one_line,
    without_chat_tokens,
    without_thoughts,
)
from rltf_verl.types import Problem

SPLITS = ("train", "test")
MAX_PROMPT_LENGTH, CHARACTERS = 2048, 3
"""Tokens of x0, the answer and the correction, as `data.max_prompt_length` has it by default, and
characters of a token: English has 4, and the second prompt and the chat template add words.
"""
GROUP = 256
"""Rows of a row group: so many are in memory at once."""
MOST_REFUSED = 20
"""Refused conversations that have a line each; all are counted."""
FEWEST_HELD_OUT = 30
"""First questions that `rltf export --gate` wants."""
TEST_SHARE = 10
"""One of so many conversations goes to the test split."""
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
of x0), `before` (the end of the messages before it), `left_out` (messages of the conversation that
x0 has no room for), `attempt` (y1), `correction` (f), `rule`.
"""

Rule = Callable[[str, str, str], bool | tuple[bool, str]]
"""A user's function: question, answer, the user's next message, none of them empty -> True if that
message corrects the answer; or this and a reason.
"""


class Said(NamedTuple):
    """A message, or several of one role in a row."""

    role: str
    text: str
    """Without secrets and addresses."""
    corrected: bool | None
    """The file's own label."""


class Exchange(NamedTuple):
    """Input of a judge."""

    question: str
    attempt: str
    correction: str
    before: str = ""
    """Text before the question."""

    @property
    def has_words(self) -> bool:
        """None of the three is empty."""
        return all(map(str.strip, self[:3]))


class Found(NamedTuple):
    """A conversation, or a user turn in it that follows an answer."""

    where: str
    fate: str
    """A conversation's: `read` or `refused`; a turn's: `taken`, `left`, `duplicate` or `without`.
    """
    why: str = ""
    """The source that decided, or the conversation's fault."""
    said: Exchange | None = None
    """The turn, without what was said before."""
    episode: Episode | None = None
    """The episode of a correction."""

    def shown(self) -> str:
        """The turn with its question and answer, in four lines."""
        parts = zip(("question", "answer", "user"), self.said or (), (100, 60, 200), strict=False)
        lines = (f"  {name:<9} {one_line(text, longest)}" for name, text, longest in parts)
        known_as = f" ({self.episode['id']})" if self.episode else ""
        return "\n".join((f"{self.fate}: {self.where} [{self.why}]{known_as}", *lines))


def find_corrections(
    path: Path,
    without: Collection[str] = (),
    judge: Judge | None = None,
    max_prompt_length: int = MAX_PROMPT_LENGTH,
    rule: Rule | None = None,
) -> list[Found]:
    """Everything in a file of conversations, in order.

    Args:
        path: parquet with a column `messages`, JSON lines, or JSON with one conversation or a list;
            JSON may be gzipped.
        without: ids of corrections to leave out.
        judge: decides on each turn without a label, with a bar on stderr.
        max_prompt_length: tokens of x0, the answer and the correction. x0 leaves out the messages
            after the system's that have no room.
        rule: decides where neither a label nor the judge does.

    Raises:
        ValueError: no parquet or gzip file; neither labels nor `judge` nor `rule`, or a rule that
            fails; an id that no correction of the file has; or a judge that cannot be called: a
            package or the API key is missing.
        OSError: the file cannot be read.
    """
    read = [_read(where, record) for where, record in _records(path)]
    if not (judge or rule or any(one.corrected is not None for _, said in read for one in said)):
        raise ValueError(
            f"{path}: nothing says which user turns correct an answer: label them"
            ' ("corrected": true or false in a message), name a judge (endpoint.base_url=URL'
            " endpoint.model=NAME), or a rule (--rule FILE.py:FUNCTION)"
        )
    longest = max_prompt_length * CHARACTERS
    judged = run_to_end(_ask(judge, [said for _, said in read], longest)) if judge else {}
    found = [
        one
        for head, said in read
        for one in (head, *_read_turns(head, said, judged, rule, longest))
    ]
    fates = _fates([turn.episode for turn in found if turn.episode], without)
    found = [turn._replace(fate=next(fates)) if turn.episode else turn for turn in found]
    unknown = {*without} - {turn.episode["id"] for turn in found if turn.episode}
    if unknown:
        raise ValueError(f"--without {min(unknown)}: no correction in {path} has this id")
    return found


def turns_to_show(found: Sequence[Found], num: int) -> Iterator[Found]:
    """The first `num` user turns of each kind, and the first refused conversations."""
    fates = Counter[str]()
    for one in found:
        fates[one.fate] += 1
        most = max(num, MOST_REFUSED) if one.fate == "refused" else num
        if one.fate != "read" and fates[one.fate] <= most:
            yield one


def summary_of(found: Sequence[Found], max_prompt_length: int) -> str:
    """What was read, and the fate of each user turn."""
    fates = Counter(one.fate for one in found)
    shortened = sum(bool(one.episode and one.episode["left_out"]) for one in found)
    return (
        f"conversations: {fates['read']} read, {fates['refused']} refused\n"
        f"user turns: {fates['taken']} corrections taken, {fates['left']} left,"
        f" {fates['duplicate']} duplicates, {fates['without']} taken out by --without\n"
        f"prompts: {shortened} without the oldest messages, to fit {max_prompt_length} tokens"
    )


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
    splits = {name: [one for one in taken if one["split"] == name] for name in SPLITS}
    if not taken:
        raise ValueError(
            f"{source}: no correction to write; --show 20 prints what each user turn was taken for,"
            ' and "corrected": true in a message overrides judge and rule'
        )
    facts = {
        "command": shlex.join(["rltf", "data", "corrections", source.name, *map(hide, words)]),
        "env": CORRECTIONS,
        "versions": versions(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for split, episodes in splits.items():
        path, batches = folder / f"{split}.parquet", partial(_batches, episodes)
        with finished(batches, SCHEMA, path, {**facts, "split": split}) as unfinished:
            unfinished.replace(path)
    return {split: len(episodes) for split, episodes in splits.items()}


def _batches(episodes: Sequence[Episode]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(episodes), GROUP):
        rows = [_row(one, k) for k, one in enumerate(episodes[start : start + GROUP], start)]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def _row(episode: Episode, index: int) -> dict[str, Any]:
    task = {key: value for key, value in episode.items() if key not in ("prompt", "split")}
    row = row_of(Problem(CORRECTIONS, index, task, reference=""), "", episode["split"])
    return row | {"prompt": episode["prompt"]}


def _records(path: Path) -> Iterable[tuple[str, Any]]:
    """Place and content of each conversation, as bytes if it is a line."""
    if path.suffix == ".parquet":
        return ((f"row {k}", row) for k, row in enumerate(pq.read_table(path).to_pylist()))
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error) as error:
            raise ValueError(f"{path}: no whole gzip file ({error}): copy it again") from None
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: byte {error.start} is not UTF-8; convert the file, e.g. by iconv -f latin1 -t"
            f" utf-8 {path} > utf8{path.suffix}"
        ) from None
    with suppress(ValueError, RecursionError):  # else it holds lines
        whole = json.loads(data)
        where, entries = ("entry", whole) if isinstance(whole, list) else ("line", [whole])
        return ((f"{where} {k}", one) for k, one in enumerate(entries, 1))
    return ((f"line {k}", line) for k, line in numbered(data))


def _read(where: str, record: Any) -> tuple[Found, list[Said]]:
    """A conversation and its messages, none if it cannot be read."""
    try:
        return Found(where, "read"), _read_conversation(record)
    except ValueError as error:
        return Found(where, "refused", one_line(str(error), 300)), []


def _read_conversation(record: Any) -> list[Said]:
    """Its messages, one where a role speaks several times in a row. Raises ValueError."""
    if isinstance(record, bytes):
        with suppress(ValueError, RecursionError):
            record = json.loads(record)
    record = record if isinstance(record, Mapping) else {}
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
    if len(text) > LONGEST:
        raise ValueError(f"{where} has more than {LONGEST} characters: take it out")
    text = without_thoughts(text) if role == "assistant" else text
    # U+FFFD: half an emoji, or what another program could not read.
    clean = hide(without_chat_tokens(clean_text(text).replace("\ufffd", "")))
    return Said(role, _ADDRESS.sub(MARK, clean), corrected)


def _exchanges(messages: Sequence[Said], longest: int) -> dict[int, Exchange]:
    """Each user turn after an answer to a user, by the number of its message."""
    # Roles alternate behind a system's message.
    return {
        k: _exchange(messages, k, longest)
        for k, one in enumerate(messages)
        if k >= 2 and messages[k - 2].role == one.role == "user"
    }


def _exchange(messages: Sequence[Said], k: int, longest: int) -> Exchange:
    question, attempt, correction = (one.text for one in messages[k - 2 : k + 1])
    before = (f"{one.role}: {one.text}" for one in _context(messages, k, longest))
    return Exchange(question, attempt, correction, "\n\n".join(before)[-MOST_BEFORE:])


def _context(messages: Sequence[Said], k: int, longest: int) -> list[Said]:
    """The messages of x0 before the question that is answered and corrected in message `k`: the
    system's, and the last ones for which `longest` characters have room.
    """
    head = int(messages[0].role == "system")
    first, held = k - 2, (*messages[:head], *messages[k - 2 : k + 1])
    room = longest - sum(len(one.text) for one in held)
    while first > head and (room := room - len(messages[first - 1].text)) >= 0:
        first -= 1
    # Templates refuse a prompt that begins with an answer, unless the conversation does.
    first += first > head and messages[first].role == "assistant"
    return [*messages[:head], *messages[first : k - 2]]


async def _ask(
    judge: Judge, conversations: Sequence[Sequence[Said]], longest: int
) -> dict[Exchange, bool]:
    """Verdicts of the judge on turns without a label."""
    judge.require_client()
    # Equal ones once.
    exchanges = {
        one
        for said in conversations
        for k, one in _exchanges(said, longest).items()
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
        console.out(f"judge: no verdict on {turns}, left unless --rule takes them: {failures[0]}")
    return verdicts


def _read_turns(
    conversation: Found,
    messages: Sequence[Said],
    judged: Mapping[Exchange, bool],
    rule: Rule | None,
    longest: int,
) -> Iterator[Found]:
    """Each user turn after an answer to a user."""
    for k, one in _exchanges(messages, longest).items():
        corrects, why = _verdict(one, messages[k].corrected, judged, rule)
        where, said = f"{conversation.where}, turn {k // 2 + 1}", one._replace(before="")
        episode = {**_episode(messages, k, longest), "rule": why} if corrects else None
        yield Found(where, "taken" if corrects else "left", why, said, episode)


def _verdict(
    exchange: Exchange, label: bool | None, judged: Mapping[Exchange, bool], rule: Rule | None
) -> tuple[bool, str]:
    """True if the turn corrects the answer; and why."""
    if not exchange.has_words:
        return False, "empty"
    if label is not None:
        return label, LABELLED if label else "corrected: false"
    if exchange in judged:
        return judged[exchange], JUDGED
    return _ask_rule(rule, exchange) if rule else (False, "no verdict")


def _ask_rule(rule: Rule, exchange: Exchange) -> tuple[bool, str]:
    try:
        said = rule(*exchange[:3])
        corrects, why = said if isinstance(said, tuple) else (said, "")
        if not isinstance(corrects, bool):
            raise TypeError(f"returned {shown(said)}; return True or False, or (True, 'reason')")
        return corrects, f"rule: {why}".removesuffix(": ")
    except OWN_ERRORS as error:  # user code
        raise ValueError(f"--rule: {raised_by(rule, error)}") from error


def _episode(messages: Sequence[Said], k: int, longest: int) -> dict[str, Any]:
    """The correction in message `k`, without its `rule`."""
    kept = [*_context(messages, k, longest), messages[k - 2]]
    exchange = _exchange(messages, k, longest)._asdict()
    # Continuations of a conversation begin alike, and stay in its split.
    opening = next(one.text for one in messages if one.role == "user").casefold().split()
    return {
        "split": SPLITS[int(_digest(opening), 16) % TEST_SHARE == 0],
        "prompt": [{"role": one.role, "content": one.text} for one in kept],
        "left_out": k - 1 - len(kept),
        "id": _digest([opening, k, *(one.text for one in messages[k - 2 : k + 1])]),
        **exchange,
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _fates(episodes: Sequence[Episode], without: Collection[str]) -> Iterator[str]:
    """`taken`, `without`, or `duplicate`: the words of x0 and the correction are those of an
    earlier one, whatever their case and punctuation.
    """
    seen = set[str]()
    for episode in episodes:
        asked = [one["content"] for one in episode["prompt"] if one["role"] != "system"]
        texts = [*asked, episode["correction"]]
        words = _digest([re.findall(r"\w+|[^\w\s.,!?]", text.casefold()) for text in texts])
        yield "duplicate" if words in seen else "without" if episode["id"] in without else "taken"
        seen.add(words)
