"""A judge that speaks the chat-completions protocol over real HTTP on loopback, and misbehaves on
demand.

As a program (`python server.py --port 8123 --latency 0.5`) it is an endpoint for benchmarks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

SILENT = ("empty", "null_content")
"""Replies without text."""
FAULTS = (
    "429",
    "429_retry_after",
    "500",
    "reset",
    "hang",
    "truncated_json",
    "html",
    "no_choices",
    *SILENT,
)
"""Everything that it can do instead of answering."""

SAID = "Thinking: it is wrong.\n\nCritique: Look at\nthe second line again."


def free_port() -> int:
    """A port of this machine that nobody has. Nobody gets it meanwhile: it is below those that the
    kernel gives to who asks for any, and above those of Ray's workers.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


def completion(text: str | None, finish: str = "stop", calls: Any = ()) -> dict[str, Any]:
    """A chat completion as the protocol has it."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    choice = {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": text,
            **({"tool_calls": [{"function": call} for call in calls]} if calls else {}),
        },
        "finish_reason": finish,
    }
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


Response = tuple[int, str, str | bytes]
RESPONSES: dict[str, Response] = {
    "429": (429, "", json.dumps({"error": {"message": "Rate limit reached"}})),
    "500": (500, "", "Internal Server Error"),
    "html": (200, "", "<html><body>Bad Gateway</body></html>"),
    "no_choices": (200, "", json.dumps({"choices": []})),
    "empty": (200, "", json.dumps(completion(""))),
    "null_content": (200, "", json.dumps(completion(None))),
}
"""Fault -> status, headers, body."""


@dataclass
class JudgeServer:
    """Serves until `stop`.

    Every request that arrives is counted once, under `answered` or under what was done to it.
    """

    responses: ClassVar[dict[str, Response]] = RESPONSES
    latency: Callable[[random.Random], float] = lambda rng: 0.0
    """Seconds that an answer takes."""
    fault_share: float = 0.0
    faults: Sequence[str] = FAULTS
    script: list[str] = field(default_factory=list)
    """What to do with the first requests, in order: a fault or `ok`."""
    reply: Callable[[dict[str, Any]], str | tuple[Any, ...]] = lambda body: SAID
    """Body -> text, or text, finish reason and calls of tools."""
    retry_after: str = "retry-after-ms: 30"
    key: str | None = None
    """Refuse other keys, quoting the one that was sent, as hosted endpoints do."""
    port: int = 0
    tls: ssl.SSLContext | None = None
    """Serve https with this certificate."""
    counts: Counter[str] = field(default_factory=Counter)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    in_flight: int = 0
    """Requests that are being answered; those left hanging are not counted, for they end when the
    client says so.
    """
    peak: int = 0
    num_connections: int = 0
    keep_bodies: bool = True

    async def start(self) -> None:
        """Listen, on a free port unless one is given; after `stop` again on the same one."""
        self._rng = random.Random(0)
        self.port = self.port or free_port()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server = await asyncio.start_server(
            self._connection, "127.0.0.1", self.port, backlog=1000, ssl=self.tls
        )

    async def stop(self) -> None:
        """Die: close the port and break every connection."""
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def __aenter__(self) -> JudgeServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        key = next(
            (line.split()[-1] for line in head.split("\r\n") if line.startswith("authorization")),
            "",
        )
        allowed = self.key is None or key == self.key.lower()
        if head.startswith("get") and allowed:
            return await self._respond(writer, 200, json.dumps({"object": "list", "data": []}))
        length = next(
            (
                int(line.split(":")[1])
                for line in head.split("\r\n")
                if line.startswith("content-length")
            ),
            0,
        )
        body = json.loads(await reader.readexactly(length) or b"{}")
        self.arrivals.append(time.monotonic())
        if self.keep_bodies:
            self.bodies.append(body)
        if not allowed:
            return await self._respond(
                writer, 401, json.dumps({"error": {"message": f"Incorrect API key: {key}"}})
            )
        return await self._act(self._choose(), body, reader, writer)

    def _choose(self) -> str:
        if self.script:
            return self.script.pop(0)
        return (
            self._rng.choice(list(self.faults)) if self._rng.random() < self.fault_share else "ok"
        )

    async def _act(
        self, action: str, body: dict[str, Any], reader: Any, writer: asyncio.StreamWriter
    ) -> bool:
        self.counts["answered" if action == "ok" else action] += 1
        if action == "hang":
            await reader.read()  # until the client gives up
            return False
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await asyncio.sleep(self.latency(self._rng))
        finally:
            self.in_flight -= 1
        if action == "reset":
            writer.transport.abort()
            return False
        status, headers, text = self._response(action, body)
        return await self._respond(writer, status, text, headers, cut=action == "truncated_json")

    def _response(self, action: str, body: dict[str, Any]) -> Response:
        if action == "429_retry_after":
            return 429, self.retry_after, self.responses["429"][2]
        if action in self.responses:
            return self.responses[action]
        said = self.reply(body)
        whole = completion(*said) if isinstance(said, tuple) else completion(said)
        return 200, "", json.dumps(whole)

    async def _respond(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        text: str | bytes,
        headers: str = "",
        cut: bool = False,
        drips: bool = False,
    ) -> bool:
        """Half of it if it is cut; a byte at a time if it drips."""
        data = text if isinstance(text, bytes) else text.encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(data)}\r\n{headers}"
        sent = f"{head.strip()}\r\ncontent-type: application/json\r\n\r\n".encode()
        sent += data[: len(data) // 2] if cut else data
        step = 1 if drips else len(sent)
        for at in range(0, len(sent), step):
            writer.write(sent[at : at + step])
            await writer.drain()
            await asyncio.sleep(0.05 if drips else 0)
        return not cut


def answering(*replies: str) -> JudgeServer:
    """A server that gives these replies, in order."""
    told = list(replies)
    return JudgeServer(reply=lambda body: told.pop(0))


class InThread:
    """The server on a thread of its own, for tests that are busy with something else."""

    def __init__(self, server: JudgeServer) -> None:
        self.server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> InThread:
        self._thread.start()
        self.run(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that go wrong")
    options = parser.parse_args()
    served = JudgeServer(
        lambda rng: options.latency, options.faults, port=options.port, keep_bodies=False
    )
    with InThread(served):
        print(served.url, flush=True)
        threading.Event().wait()
