"""`rltf.episode_log`: what is written down of the episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rltf_verl.kinds import Within


@dataclass(frozen=True)
class EpisodeLogConfig:
    """What of a run is in its episode log (`runlog.episodes`)."""

    dir: str | None = None
    """Folder of the log; null writes none."""
    share: Annotated[float, Within(0, 1)] = 1.0
    """Fraction of training problems per step whose episodes are logged, in [0, 1]. Validation is
    logged whole.
    """
    max_gb: Annotated[float, Within(above=0)] | None = 50.0
    """Size of the folder at which nothing more is written, in 10⁹ bytes; null is no limit."""
    ids: bool = False
    """Write each attempt's tokens too: prompt ids, response ids, the sampler's log-probs."""
    token_sessions: Annotated[int, Within(0)] = 2
    """Training episodes per step of which each trained token is written with its advantage and
    log-probs.
    """
