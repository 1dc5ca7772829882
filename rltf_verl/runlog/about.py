"""`run.json` of an episode log: the settings that its episodes were played with."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import write_whole
from rltf_verl.redaction import cleaned, hidden, secrets_here

logger = logging.getLogger(__name__)

ABOUT = "run.json"

MISSING = "missing_episodes"
"""Key of the number of episodes that the log lacks, if any."""
ROOM = 80
"""Blanks at the end of the file, which `write_missing` fills."""

BLOCKS = ("env", "episode", "feedback", "reward", "seed")
"""Blocks of the `rltf:` config that decide how an episode is played."""

SIZES = (
    "data.train_batch_size",
    "actor_rollout_ref.rollout.n",
    "data.max_prompt_length",
    "data.max_response_length",
)
"""Keys of verl's config."""


def write_about(
    log: Path, rltf: Mapping[str, Any], sizes: Mapping[str, Any], phrases: list[str]
) -> None:
    """Write the file, over that of an earlier process, whose missing episodes it keeps. A disk that
    refuses costs a warning, not the run. It holds no secret.

    Args:
        log: folder of the log, made if needed.
        rltf: the resolved `rltf:` config, of which `BLOCKS` are written.
        sizes: key of `SIZES` -> value.
        phrases: `rltf.mentions.phrases`.
    """
    # an earlier process may have lost episodes, which stay lost
    missing = read_about(log).get(MISSING)
    facts = {
        "rltf": {name: rltf[name] for name in BLOCKS},
        "sizes": dict(sizes),
        "phrases": phrases,
        **({MISSING: missing} if missing else {}),
    }
    try:
        log.mkdir(parents=True, exist_ok=True)
        text = json.dumps(cleaned(hidden(facts), secrets_here()), indent=1, default=str)
        write_whole(log / ABOUT, f"{text}{' ' * ROOM}\n".encode())
    except OSError as error:
        logger.warning("episode log: %s cannot be written (%s)", log / ABOUT, error)


def write_missing(log: Path, num_episodes: int) -> None:
    """Add the number of episodes that the disk refused: in place, because it may still be full."""
    path = log / ABOUT
    with suppress(OSError), path.open("r+", encoding="utf-8") as file:
        about = read_about(log)
        text = json.dumps({**about, MISSING: about.get(MISSING, 0) + num_episodes}, indent=1)
        # as long as before: a full disk has no room for a byte more
        file.write(text.ljust(path.stat().st_size))


def read_about(log: Path, name: str = ABOUT) -> dict[str, Any]:
    """The content of the file; empty if it is missing or damaged."""
    try:
        about = json.loads((log / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}
