"""SD judges an answer as an answer to the first prompt: no shaping of the episode's rewards changes
a number of it.
"""

import typing
from dataclasses import replace

import pytest
import torch

from rltf_verl.algos.pack import pack_episodes, pack_rows
from rltf_verl.config import DistillConfig, RewardConfig, RLTFConfig
from rltf_verl.config.objectives import Baseline
from rltf_verl.episode.reward import shape_rewards
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives import objective_weights
from rltf_verl.objectives.distill import distill_rows
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import Attempt, Episode, Grade, Problem, Role, Turn
from tests.support.hand_cases import close

SHAPINGS = [
    {"turn_decay": 0.5},
    {"intermediate": False},
    {"repetition_coef": 0.7},
]
ALL = {"turn_decay": 0.3, "intermediate": False, "repetition_coef": 0.7}


def line(*scores, text="same"):
    """An episode of answers with these scores, all with the same text."""
    return [
        Turn(
            Attempt((k,), (k, k), (-1.0, -1.0), text, True),
            Grade(score == 1.0, True, score=score),
            score,
            parent=k - 1 if k else None,
            stop="horizon" if k + 1 == len(scores) else None,
        )
        for k, score in enumerate(scores)
    ]


RIGHT_RIGHT, WRONG_RIGHT = line(1.0, 1.0), line(0.0, 1.0)
TREE = [
    replace(turn, parent=parent, stop=stop)
    for turn, parent, stop in zip(
        line(0.25, 0.5, 1.0, 0.0), (None, 0, 1, 0), (None, None, "horizon", "horizon"), strict=True
    )
]


def targets(sessions, reward, **distill):
    """Advantages of the rows of a group: of attempts, and of distilled answers (one number
    each).
    """
    config = RLTFConfig(distill=DistillConfig(**{"weight": 1.0, **distill}))
    episodes = [
        Episode(Problem("x", 0, {}, ""), s, tuple(shape_rewards(turns, RewardConfig(**reward))))
        for s, turns in enumerate(sessions)
    ]
    rows = [
        (row, s) for s, e in enumerate(episodes) for row in (*attempt_rows(e), *distill_rows(e))
    ]
    packed = pack_rows(
        [row for row, _ in rows],
        [s for _, s in rows],
        pack_episodes(episodes, [0] * len(episodes)),
        [row.log_probs for row, _ in rows],
    )
    advantages = compute_targets(
        packed, config, objective_weights(config, step=0, num_steps=1)
    ).advantages
    firsts = torch.stack([row[0] for row in packed.by_row(advantages)])  # a row's are all the same
    distilled = torch.tensor([row.role[0] == Role.DISTILL for row, _ in rows])
    return (
        firsts[~distilled],
        firsts[distilled],
        [row for row, _ in rows if row.role[0] == Role.DISTILL],
    )


@pytest.mark.parametrize(
    ("reward", "sessions", "expected"),
    [
        ({"turn_decay": 0.5}, [RIGHT_RIGHT] * 2 + [WRONG_RIGHT] * 2, [0.5] * 4),
        ({"intermediate": False}, [RIGHT_RIGHT] * 4, [0.0] * 4),
        ({"repetition_coef": 0.5}, [WRONG_RIGHT] * 4, [1.0] * 4),
    ],
)
def test_the_advantage_is_the_answers_own_reward_less_what_first_answers_earn(
    reward, sessions, expected
):
    close(targets(sessions, reward)[1], expected)


@pytest.mark.parametrize("reward", [*SHAPINGS, ALL])
@pytest.mark.parametrize("baseline", typing.get_args(Baseline))
def test_shaping_moves_attempts_and_nothing_of_distillation(baseline, reward):
    sessions = [line(0.0, 1.0), line(0.5, 0.0, 0.0), line(1.0), line(0.25, 0.5, 1.0), TREE]
    attempts, distilled, rows = targets(sessions, {}, baseline=baseline)
    moved, same, same_rows = targets(sessions, reward, baseline=baseline)
    assert torch.equal(distilled, same)
    assert rows == same_rows, "the rows carry the reward of the answer, too"
    assert not torch.allclose(attempts, moved)


def test_without_shaping_the_two_rewards_are_one():
    sessions = pack_episodes(
        [Episode(Problem("x", 0, {}, ""), 0, tuple(shape_rewards(line(0.5, 1.0), RewardConfig())))],
        [0],
    )
    assert torch.equal(sessions.graded, sessions.rewards)
