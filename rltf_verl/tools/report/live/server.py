"""The server of the live page: only for who has its address, and only under a name of this machine.

Another site's script in the same browser can send requests here, and can make its own name point
here (DNS rebinding). So the path begins with a random token, and a request with another `Host` is
refused.
"""

from __future__ import annotations

import gzip
import hmac
import ipaddress
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from rltf_verl.tools.report.live.run import LiveRuns
from rltf_verl.tools.report.view.build import shell

LOOK_S = 1.0
"""Between two looks at the runs, at least."""
WORTH_PACKING = 10_000
"""Bytes."""
SLOW_S = 20
"""Seconds after which a client that says nothing, or takes less than a piece, is sent away."""
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, runs: LiveRuns) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.runs, self.host = runs, host
        self.token = secrets.token_urlsafe(24)
        self.page = shell(runs.title, [], live=True).encode()
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is no news."""

    def knows(self, host: str) -> bool:
        """Whether a `Host` header is this machine's. An address can be no rebound name; the port is
        another one behind a tunnel.
        """
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        if name in ("localhost", self.host.lower()):
            return True
        with_names = ipaddress.ip_address(str(self.server_address[0])).is_loopback
        if not with_names and name in (socket.gethostname().lower(), socket.getfqdn().lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not with_names


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SLOW_S

    def do_GET(self) -> None:
        """Answers with the page or a part of its data."""
        if not self.server.knows(self.headers.get("Host", "")):
            self._send(421, b"another host's name\n", "text/plain")
            return
        url = urlsplit(self.path)
        token, *parts = url.path.removeprefix("/").split("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._send(404, b"not here\n", "text/plain")
        elif parts == [""]:
            self._send(200, self.server.page, "text/html; charset=utf-8")
        else:
            have = parse_qs(url.query).get("have", [""])[0]
            body = self._data([unquote(part) for part in parts], have)
            if body is None:
                self._send(404, b"not here\n", "text/plain")
            else:
                self._send(200, body, "application/json")

    def _data(self, parts: list[str], have: str) -> bytes | None:
        runs = self.server.runs
        numbers = {str(k): k for k in range(len(runs.runs))}
        match parts:
            case [number, "index"] if number in numbers:
                return runs.index(numbers[number], have)
            case [number, "block", name] if number in numbers:
                return runs.runs[numbers[number]].block(name)
            case [number, "tokens", name, uid, episode] if number in numbers:
                if episode.isascii() and episode.isdigit():
                    return runs.runs[numbers[number]].tokens(name, uid, int(episode))
        return None

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
        """Of the `Server` header: nothing that helps an attacker."""
        return "rltf"

    def log_message(self, format: str, *args: object) -> None:
        """The address is a secret, so it is in no log."""


@dataclass(frozen=True)
class LivePage:
    """The page while it is served."""

    address: str
    """With the token."""
    is_open: bool
    """To other machines."""
    runs: LiveRuns

    def follow(self) -> NoReturn:
        """Look at the runs again and again, at most a tenth of the time."""
        while True:
            began = time.monotonic()
            if self.runs.refresh():
                time.sleep(max(LOOK_S, 9 * (time.monotonic() - began)))


@contextmanager
def serving(runs: LiveRuns, host: str, port: int) -> Iterator[LivePage]:
    """Serve the page while the block runs.

    Args:
        runs: what it shows.
        host: address to bind.
        port: 0 for a free one.

    Raises:
        OSError: the address cannot be bound.
        ValueError: no port has this number.
    """
    try:
        server = _Server(host, port, runs)
    except OSError as error:
        cause = error.strerror or str(error)
        raise OSError(f"{host}:{port}: {cause}; name another --port or --host") from None
    except OverflowError:
        raise ValueError(f"--port={port}: a port is a number from 0 to 65535") from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    bound = ipaddress.ip_address(str(server.server_address[0]))
    name = socket.gethostname() if bound.is_unspecified else host
    shown = f"[{name}]" if ":" in name else name
    address = f"http://{shown}:{server.server_address[1]}/{server.token}/"
    try:
        yield LivePage(address, not bound.is_loopback, runs)
    finally:
        server.shutdown()
        server.server_close()
