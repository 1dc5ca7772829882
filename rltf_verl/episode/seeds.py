"""All randomness of an episode comes from its place in the run, so that a resumed run samples the
same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from rltf_verl.texts import seed_from


def sampling_seed(
    base: int,
    *,
    validate: bool,
    step: int,
    source: str,
    index: int,
    session_id: int,
    place: str,
    draw: int = 0,
) -> int:
    """A 63-bit seed that depends on all arguments and on nothing else (no process state, no Python
    hash salt).

    Args:
        base: `rltf.seed`.
        validate: validation or training episode.
        step: global step.
        source: `data_source` of the problem: concatenated datasets share indices.
        index: of the problem.
        session_id: within the group.
        place: which sample of the episode (`place_of`).
        draw: how often the step has drawn the problem before.
    """
    split = "val" if validate else "train"
    again = [draw] if draw else []  # the first draw has the seeds of runs that counted none
    text = json.dumps([base, split, step, source, index, session_id, place, *again])
    return seed_from(text)


def place_of(turn: int, what: str = "") -> str:
    """Name of one sample of an episode: 0-based turn, and what is sampled there."""
    return f"{turn}{f'/{what}' if what else ''}"


def seeds_of_episode(
    base: int | None,
    *,
    validate: bool,
    step: int,
    source: str,
    index: int,
    session_id: int,
    pair_sessions: bool,
    draw: int = 0,
) -> Callable[[str], int]:
    """Place in the episode -> its seed; the arguments are those of `sampling_seed`.

    Without a base (`rltf.seed=null`) the seeds are those of base 0: the engine gets none of them,
    providers do.

    Episodes 2i and 2i+1 of a run with `rltf.episode.pair_sessions` share their first answer, and
    nothing else.
    """

    # `0`, and the beginning of `0/step1`, `0/step2`, … of a trajectory.
    first = place_of(0), place_of(0, "step")

    def seed_of(place: str) -> int:
        shares = pair_sessions and (place == first[0] or place.startswith(first[1]))
        own = session_id - session_id % 2 if shares else session_id
        return sampling_seed(
            base or 0,
            validate=validate,
            step=step,
            source=source,
            index=index,
            session_id=own,
            place=place,
            draw=draw,
        )

    return seed_of
