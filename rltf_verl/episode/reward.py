"""From a grade to the reward of a turn, and from the rewards of an episode's turns to what is
learnt from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltf_verl.config import RewardConfig
from rltf_verl.texts import answer_form
from rltf_verl.types import Attempt, Grade, Turn


def score_of(grade: Grade) -> float:
    """1 right, 0 wrong, or the graded share."""
    return float(grade.correct) if grade.score is None else grade.score


def graded_reward(grade: Grade, attempt: Attempt, config: RewardConfig) -> float:
    """r = score + f·(fmt − 1), fmt = an answer could be extracted and the policy ended it itself
    (as the release).
    """
    format_ok = grade.format_ok and attempt.ended
    return score_of(grade) + config.format_coef * (float(format_ok) - 1.0)


def shape_rewards(turns: Sequence[Turn], config: RewardConfig) -> list[Turn]:
    """r − (1 − d^(k−1))·score − λ·(1 − E/T), for turn k of an episode.

    The first two terms count only where the turn does (`RewardConfig.intermediate`): the score
    decays by d per turn, the format's part of r does not. The last one is paid at the end of an
    episode of T turns with E different answers (UFO, arXiv 2507.14295). The turn keeps r itself as
    `Turn.unshaped`.

    Args:
        turns: of one episode, with `graded_reward`.
        config: d = `turn_decay`, λ = `repetition_coef`.
    """
    return [
        replace(turn, reward=_shape(turns, k, config), unshaped=turn.reward)
        for k, turn in enumerate(turns)
    ]


def _shape(turns: Sequence[Turn], k: int, config: RewardConfig) -> float:
    turn = turns[k]
    # The format's part of the reward does not decay, only the score.
    decayed = turn.reward - (1.0 - config.turn_decay**k) * score_of(turn.grade)
    reward = decayed if config.intermediate or turn.stop is not None else 0.0
    if turn.stop not in (None, "ungraded"):
        reward -= config.repetition_coef * _repeated_share(turns)
    return reward


def _repeated_share(turns: Sequence[Turn]) -> float:
    """1 − E/T: the share of answers that repeat an earlier one."""
    answers = {answer_form(turn.grade.parsed, turn.attempt.text) for turn in turns}
    return 1.0 - len(answers) / len(turns)
