"""The server of a page that follows runs: only for those who have its address, and only under a
name of this machine.

A script of another site in the same browser can send requests here, and can make its own name point
here (DNS rebinding). So the path begins with a random token, and a request with another `Host` is
refused.
"""

from __future__ import annotations

import gzip
import hmac
import ipaddress
import json
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn
from urllib.parse import quote, unquote, urlsplit

from rltf_verl.tools.report.view.build import as_json, shell
from rltf_verl.tools.report.view.episodes import conversation, has_tokens, tokens
from rltf_verl.tools.report.view.run import Run, block_name, page_index, tokens_name

LOOK_S = 1.0
"""Between two looks at the disk, at least."""
READ_S = 1.0
"""Seconds that one look may read; the old steps of a long run come in later ones."""
WORTH_PACKING = 10_000
"""Bytes."""
SLOW_S = 20
"""Seconds after which a client is disconnected that sends nothing, or takes less than a piece."""
PIECE = 65_536
"""Bytes."""

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address is the key
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class LivePage:
    """The page of runs that still train, and the parts of its data."""

    def __init__(self, runs: Sequence[Run], title: str) -> None:
        self.runs, self.title = runs, title
        self.html = shell(title, [], live=True).encode()
        self._index: tuple[str, str] = ("", "")
        """Version and JSON."""

    def refresh(self) -> bool:
        """Look at the disk, once; whether everything there is read."""
        all_read = [run.refresh(READ_S) for run in self.runs]
        return all(all_read)

    def follow(self) -> NoReturn:
        """Look at the disk again and again, at most a tenth of the time."""
        while True:
            began = time.monotonic()
            if self.refresh():
                time.sleep(max(LOOK_S, 9 * (time.monotonic() - began)))

    def part(self, path: Sequence[str], version: str) -> str | None:
        """JSON of a part; None: no such part.

        Args:
            path: `index`, `run/block/step.split`, or `run/tokens/step.split/uid/number`.
            version: of the index that the browser has.
        """
        if list(path) == ["index"]:
            return self.index(version)
        runs = {str(k): run for k, run in enumerate(self.runs)}
        if len(path) < 3 or path[0] not in runs:
            return None
        run, kind, block = runs[path[0]], path[1], f"block/{path[2]}"
        at = next((at for at in run.listed() if block_name(at) == block), None)
        if at is None:
            return None
        records = run.records(at)
        if kind == "block" and len(path) == 3:
            return as_json([conversation(record, tokens_name(at, record)) for record in records])
        name = "/".join([kind, path[2], *(quote(part, safe="") for part in path[3:])])
        same = (r for r in records if has_tokens(r) and tokens_name(at, r) == name)
        return next((as_json(tokens(record)) for record in same), None)

    def index(self, version: str) -> str:
        """Where the runs stand; the index of the page too if the browser has another version."""
        now = "-".join(str(run.version) for run in self.runs)
        state = {"version": now, "now": time.time(), "states": [run.state() for run in self.runs]}
        if version == now:
            return json.dumps(state)
        if self._index[0] != now:
            self._index = (now, as_json(page_index([run.index() for run in self.runs], self.title)))
        return f'{json.dumps(state)[:-1]}, "index": {self._index[1]}}}'


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, page: LivePage) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.page, self.host = page, host
        self.token = secrets.token_urlsafe(24)
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a browser that disconnects is no error."""

    def is_this_machine(self, host: str) -> bool:
        """Whether a `Host` header names this machine. An address can be no rebound name; the port
        is another one behind a tunnel.
        """
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        if name in ("localhost", self.host.lower()):
            return True
        is_open = not ipaddress.ip_address(str(self.server_address[0])).is_loopback
        if is_open and name in (socket.gethostname().lower(), socket.getfqdn().lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or is_open


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SLOW_S

    def do_GET(self) -> None:
        """Answers with the page or a part of its data."""
        if not self.server.is_this_machine(self.headers.get("Host", "")):
            self._send(421, b"another host's name\n", "text/plain")
            return
        url = urlsplit(self.path)
        token, *path = url.path.removeprefix("/").split("/")
        has_token = hmac.compare_digest(token.encode(), self.server.token.encode())
        if has_token and path == [""]:
            self._send(200, self.server.page.html, "text/html; charset=utf-8")
            return
        path = [unquote(part) for part in path]
        part = self.server.page.part(path, url.query) if has_token else None
        if part is None:
            self._send(404, b"not here\n", "text/plain")
        else:
            self._send(200, part.encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        packs = "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > WORTH_PACKING
        body = gzip.compress(body, compresslevel=1) if packs else body
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if packs:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body), PIECE):  # the limit is for each write, however long
            self.wfile.write(body[start : start + PIECE])

    def version_string(self) -> str:
        """The `Server` header: nothing that helps an attacker."""
        return "rltf"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the address is a secret, so no log has it."""


@contextmanager
def serving(page: LivePage, host: str, port: int) -> Iterator[tuple[str, bool]]:
    """Serve the page while the block runs; its address with the token, and whether other machines
    reach it.

    Args:
        page: the page.
        host: address to bind.
        port: 0 for a free one.

    Raises:
        OSError: the address cannot be bound.
        ValueError: no port has this number.
    """
    try:
        server = _Server(host, port, page)
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(f"{host}:{port}: {cause}; choose another --port or --host") from None
    except OverflowError:
        raise ValueError(f"--port={port}: not a port; choose 0 to 65535") from None
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    bound = ipaddress.ip_address(str(server.server_address[0]))
    name = socket.gethostname() if bound.is_unspecified else host
    shown = f"[{name}]" if ":" in name else name
    try:
        yield f"http://{shown}:{server.server_address[1]}/{server.token}/", not bound.is_loopback
    finally:
        server.shutdown()
        server.server_close()
