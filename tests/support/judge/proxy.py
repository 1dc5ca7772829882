"""An HTTP proxy on loopback that keeps everything that its clients send."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

CERTIFICATE = __file__.replace("proxy.py", "localhost.pem")
"""Key and certificate, by itself, of `judge.invalid` and 127.0.0.1: for tests only."""


@dataclass
class RecordingProxy:
    """Sends every request to one port of this machine, whatever its host.

    It tunnels `CONNECT` and relays other requests as they are.
    """

    target: int
    received: bytearray = field(default_factory=bytearray)
    """From clients, in the order in which it came."""

    async def __aenter__(self) -> RecordingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        # Until the client or the server closes its end.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.received += head
            if head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                up_writer.write(head)
            await asyncio.gather(
                self._pass_on(reader, up_writer, keep=True),
                self._pass_on(up_reader, writer, keep=False),
            )
        up_writer.close()
        writer.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, keep: bool
    ) -> None:
        while data := await reader.read(65536):
            if keep:
                self.received += data
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof() if writer.can_write_eof() else writer.close()
