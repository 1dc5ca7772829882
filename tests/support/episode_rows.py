"""Episodes written down, and their rows."""

import asyncio

from rltf_verl.config import AttemptConfig, CritiqueConfig, DistillConfig, ImitateConfig, RLTFConfig
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives import Method
from rltf_verl.objectives.feedback_modeling import with_feedback
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn

PROBLEM = Problem("echo", 0, {}, "yes")


def attempt(prompt, response, log_probs=True):
    values = tuple(-float(i) for i in response) if log_probs else None
    return Attempt(tuple(prompt), tuple(response), values, text="", ended=True)


def turn(prompt, response, reward=0.0, critique=None, log_probs=True):
    feedback = Feedback("f", "policy", attempt=critique) if critique else None
    return Turn(attempt(prompt, response, log_probs), Grade(reward > 0.5, True), reward, feedback)


def episode(*turns):
    return Episode(PROBLEM, 0, turns)


def rows_of(played, *, distill=False, critique=True, imitate=None, turns="all"):
    """Of the objectives that are asked for; none of them needs the policy."""
    config = RLTFConfig(
        attempt=AttemptConfig(turns=turns),
        distill=DistillConfig(weight=0.1 * distill),
        critique=CritiqueConfig(weight=1.0 * critique),
        imitate=ImitateConfig(weight=0.1, source=imitate) if imitate else ImitateConfig(),
    )
    return asyncio.run(episode_rows(None, [], played, Method(config)))


def inline_rows(played):
    """Attempt rows in which the feedback between two attempts is predicted."""
    return [with_feedback(row, played) for row in attempt_rows(played)]
