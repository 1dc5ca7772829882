"""Ray runs this as a worker's Python: it gets a process from the fork server, and ends with it.

Run as a script, with the standard library only. Where no fork server answers (another node, one
that has died) it becomes the plain worker that Ray wanted.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import sys


def main(address: str, arguments: list[str]) -> int:
    """The exit status of the worker.

    Args:
        address: the name of the server's socket (an abstract one: it leaves no file behind).
        arguments: Ray's worker script and its arguments.
    """
    try:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(f"\0{address}")
        cwd = os.getcwd()  # noqa: PTH109  (pathlib would be most of what this script imports)
        request = {"arguments": arguments, "cwd": cwd, "environment": dict(os.environ)}
        data = json.dumps(request).encode()
        streams = array.array("i", [0, 1, 2])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
        server.sendmsg([struct.pack("!I", len(data))], rights)
        server.sendall(data)
        accepted = server.recv(1)
    except OSError:
        accepted = b""
    # The server has refused, or is gone.
    if not accepted:
        os.execv(sys.executable, [sys.executable, *arguments])
    try:
        status = server.recv(1)
    except OSError:
        status = b""
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
