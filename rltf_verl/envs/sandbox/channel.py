"""Frames to and from a process that may be hostile: every read and write has a deadline and a
bound.
"""

from __future__ import annotations

import os
import select
import time


class ChannelClosed(Exception):  # noqa: N818  # an everyday event
    """The other side is gone."""


class ChannelFull(Exception):  # noqa: N818
    """The other side announced a frame that is larger than any it should send."""


class Channel:
    """Length-prefixed frames over two pipes, which become non-blocking.

    Args:
        write_fd: towards the process.
        read_fd: from it.
        max_bytes: largest frame that is read.
    """

    def __init__(self, write_fd: int, read_fd: int, max_bytes: int) -> None:
        self._write_fd, self._read_fd, self._max_bytes = write_fd, read_fd, max_bytes
        os.set_blocking(write_fd, False)
        os.set_blocking(read_fd, False)

    def send(self, data: bytes, deadline: float) -> None:
        """Write one frame. Raises TimeoutError at `deadline` (monotonic seconds), ChannelClosed."""
        view = memoryview(len(data).to_bytes(4, "big") + data)
        while view:
            wait_for(self._write_fd, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._write_fd, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise ChannelClosed from error

    def receive(self, deadline: float) -> bytes:
        """Read one frame. Raises TimeoutError at `deadline` (monotonic seconds), ChannelClosed,
        ChannelFull.
        """
        size = int.from_bytes(self._exactly(4, deadline), "big")
        if size > self._max_bytes:
            raise ChannelFull
        return self._exactly(size, deadline)

    def _exactly(self, num: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < num:
            wait_for(self._read_fd, select.POLLIN, deadline)
            try:
                chunk = os.read(self._read_fd, num - len(data))
            except BlockingIOError:
                continue
            if not chunk:
                raise ChannelClosed
            data += chunk
        return bytes(data)


def wait_for(fd: int, event: int, deadline: float) -> None:
    """Wait until a descriptor is ready. Raises TimeoutError at `deadline`."""
    left = deadline - time.monotonic()
    poll = select.poll()  # select() knows no descriptor above 1023
    poll.register(fd, event)
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError
