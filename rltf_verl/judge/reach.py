"""One small request to an endpoint before a run counts on it: nothing of it is counted, recorded or
kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rltf_verl.judge.client import Fault, JudgeClient
from rltf_verl.judge.settings import Endpoint, Limits

PATIENCE_S = 10.0
QUESTION = {"role": "user", "content": "Reply with the word ok, and nothing else."}


def first_answers(endpoints: Sequence[Endpoint]) -> list[Fault | None]:
    """What becomes of one request to each, all at the same time; None: an answer.

    The request has the fields that those of the run have, so that what refuses these refuses it.

    Raises:
        ValueError: a package or an API key is missing.
    """

    async def all_of_them() -> list[Fault | None]:
        return list(await asyncio.gather(*map(_first_answer, endpoints)))

    return asyncio.run(all_of_them())


async def _first_answer(endpoint: Endpoint) -> Fault | None:
    client = JudgeClient(endpoint, PATIENCE_S, Limits.max_reply_bytes)
    try:
        await asyncio.wait_for(client.request(endpoint.body([QUESTION], seed=0)), PATIENCE_S)
    except asyncio.TimeoutError:  # not the builtin before Python 3.11
        return Fault("timeout", f"no answer in {PATIENCE_S:g} s")
    except Fault as fault:
        return fault
    finally:
        await client.aclose()
    return None
