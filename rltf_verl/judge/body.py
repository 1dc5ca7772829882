"""The body of a response, read as it comes and no further than a limit, whatever it unpacks to."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""`zlib`'s window bits."""


class BodyError(Exception):
    """A body that is not read to its end; says why, in words of ours."""


async def read_body(response: httpx.Response, longest: int) -> str:
    """The text of a response that is being streamed; its connection is closed if it is too long.

    Args:
        response: not read yet.
        longest: bytes, on the wire and unpacked.

    Raises:
        BodyError: it is longer, broken, or packed in a way that nobody asked for.
        httpx.HTTPError: the connection broke.
    """
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("identity", "", *_WINDOW):
        raise BodyError("the body is packed in a way that was not asked for (Content-Encoding)")
    unpack = zlib.decompressobj(_WINDOW[packed]) if packed in _WINDOW else None
    body, on_the_wire = bytearray(), 0
    async for chunk in response.aiter_raw():
        on_the_wire += len(chunk)
        body += chunk if unpack is None else _unpacked(unpack, chunk, longest + 1 - len(body))
        if max(len(body), on_the_wire) > longest:
            raise BodyError(f"the body has more than {longest} bytes (limits.max_reply_bytes)")
    return body.decode("utf-8", "replace")


def _unpacked(unpack: zlib._Decompress, chunk: bytes, room: int) -> bytes:
    try:
        return unpack.decompress(unpack.unconsumed_tail + chunk, room)
    except zlib.error:
        raise BodyError("the body is not packed as its Content-Encoding says") from None
