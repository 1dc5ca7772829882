"""What feedback tells and what answers speak of, seen by the code of training: leak guard and
mentions.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.config import GuardConfig
from rltf_verl.envs.base import Env
from rltf_verl.episode.mentions import mentions
from rltf_verl.feedback.guard.find import GuardSettings, find_leaks
from rltf_verl.tools.evaluate.play import Record
from rltf_verl.tools.report.probe.measures import Reader
from rltf_verl.types import Problem


def reader(env: Env, guard: GuardConfig, phrases: Sequence[str]) -> Reader:
    """Looks at every text by the guard's rules, whatever the guard did."""
    settings = GuardSettings(parts=guard.parts, overlap=guard.overlap)

    def tells(episode: Record, feedback: str, attempt: str) -> bool | None:
        """None for an episode of another environment, and where the log does not hold all of the
        problem.
        """
        if episode["env"] != env.name or episode.get("task") is None:
            return None
        problem = Problem(episode["env"], episode["index"], episode["task"], episode["reference"])
        try:
            return bool(find_leaks(env, problem, feedback, attempt, settings))
        except Exception:  # environments are user code, and logs may be of an older one
            return None

    return Reader(tells=tells, mentions=lambda text: bool(mentions(text, phrases)))
