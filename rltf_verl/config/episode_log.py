"""`rltf.episode_log`: what is written down of the sessions."""

from __future__ import annotations

from dataclasses import dataclass

from rltf_verl.config.reading import require


@dataclass(frozen=True)
class EpisodeLogConfig:
    """What of a run stands in its episode log (`report.episode_log`)."""

    dir: str | None = None
    """Folder of the log; null writes none."""
    share: float = 1.0
    """Of the training problems of a step: whose sessions are written, in [0, 1]. Validation is written whole."""
    max_gb: float | None = 50.0
    """Size of the folder at which nothing more is written, in 10⁹ bytes; null is no limit."""
    ids: bool = False
    """Write each attempt's tokens too: prompt ids, response ids, the sampler's log-probs."""
    token_sessions: int = 2
    """Training sessions per step of which each trained token is written with its advantage and log-probs."""

    def __post_init__(self) -> None:
        require(0 <= self.share <= 1, "episode_log.share", self.share, "must be in [0, 1]")
        require(self.max_gb is None or self.max_gb > 0, "episode_log.max_gb", self.max_gb, "must be positive, or null")
        require(self.token_sessions >= 0, "episode_log.token_sessions", self.token_sessions, "must be at least 0")
