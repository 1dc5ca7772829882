"""From a grade to the reward of a turn, and from the rewards of an episode's turns to what is
learnt from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltf_verl.answers import answer_form
from rltf_verl.config import RewardConfig
from rltf_verl.types import Attempt, Grade, Turn, path_to


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
    """r − (1 − d^(k−1))·score − λ·(1 − E/T), for turn k of its branch.

    The first two terms count only where the turn does (`RewardConfig.intermediate`): the score
    decays by d per turn, the format's part of r does not. The last one is paid at the end of a
    branch of T turns with E different answers (UFO, arXiv 2507.14295). The turn keeps r itself as
    `Turn.unshaped`.

    Args:
        turns: of one episode, parents before their children, with `graded_reward`.
        config: d = `turn_decay`, λ = `repetition_coef`.
    """
    return [
        replace(turn, reward=_shape(turns, k, config), unshaped=turn.reward)
        for k, turn in enumerate(turns)
    ]


def _shape(turns: Sequence[Turn], k: int, config: RewardConfig) -> float:
    branch = [turns[at] for at in path_to([turn.parent for turn in turns], k)]
    turn = branch[-1]
    # The format's part of the reward does not decay, only the score.
    decayed = turn.reward - (1.0 - config.turn_decay ** (len(branch) - 1)) * score_of(turn.grade)
    reward = decayed if config.intermediate or turn.stop is not None else 0.0
    if turn.stop not in (None, "ungraded"):
        reward -= config.repetition_coef * _repeated_share(branch)
    return reward


def _repeated_share(branch: Sequence[Turn]) -> float:
    """1 − E/T: the share of answers that repeat an earlier one of the branch."""
    answers = {answer_form(turn.grade.parsed, turn.attempt.text) for turn in branch}
    return 1.0 - len(answers) / len(branch)
