"""What feedback tells and what answers speak of, seen by the code of training: leak guard and
mentions.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.config import RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.episode.mentions import mentions
from rltf_verl.evaluate.play import Record
from rltf_verl.feedback.guard.find import GuardSettings, find_leaks
from rltf_verl.report.probe.measures import Reader
from rltf_verl.types import Problem


def reader(rltf: RLTFConfig, phrases: Sequence[str]) -> Reader:
    """Looks at every text by the guard's rules, whatever the guard did. Raises ValueError: no such
    environment.
    """
    env = make_env(rltf.env.name, **rltf.env.options)
    settings = GuardSettings(parts=rltf.feedback.guard.parts, overlap=rltf.feedback.guard.overlap)

    def tells(session: Record, feedback: str, attempt: str) -> bool | None:
        """None for a session of another environment, and where the log does not hold all of the
        problem.
        """
        if session["env"] != rltf.env.name or session.get("task") is None:
            return None
        problem = Problem(session["env"], session["index"], session["task"], session["reference"])
        try:
            return bool(find_leaks(env, problem, feedback, attempt, settings))
        except Exception:  # environments are user code, and logs may be of an older one
            return None

    return Reader(tells=tells, mentions=lambda text: bool(mentions(text, phrases)))
