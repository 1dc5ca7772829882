"""A judge for the smoke tests: OpenAI's chat completions over real HTTP, on loopback only.

It always gives the same few characters, which a policy of characters can read, and, where the
prompt asks for one, a score that depends on the text.
"""

from __future__ import annotations

import json
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any


def reply(prompt: str) -> str:
    """The judge's answer to a prompt."""
    marker = "Hint" if "\nHint: " in prompt else "Critique"
    text = f"Thinking: no.\n\n{marker}: 010"
    score = 1 + zlib.crc32(prompt.encode()) % 10
    return f"{text}\n\nScore: {score}" if "\nScore:" in prompt else text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send({"object": "list", "data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": reply(body["messages"][-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        head = {"id": "0", "object": "chat.completion", "created": 0, "model": body["model"]}
        self._send({**head, "choices": [choice], "usage": usage})

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""

    def _send(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class LoopbackJudge:
    """`with LoopbackJudge() as judge:` serves at `judge.url` until the block ends."""

    def __enter__(self) -> LoopbackJudge:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
