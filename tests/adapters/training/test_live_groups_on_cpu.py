"""Dynamic sampling against a queue in memory: which groups a batch has, what leaves the queue, what
is counted.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.queue.columns import DRAW, FACTS, ROLE, TURN, ragged
from rltf_verl.adapters.training.live_groups import Draws, LiveGroups
from rltf_verl.config import (
    AttemptConfig,
    DistillConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    LogitDistillConfig,
    RLTFConfig,
    ScheduleConfig,
    TeacherConfig,
)
from rltf_verl.config.teacher import Gate
from rltf_verl.objectives import Method
from rltf_verl.objectives.targets import live_groups
from rltf_verl.types import Role
from tests.support.methods import ONLY
from tests.support.step_queue import facts_of

GRPO = RLTFConfig(gamma=1.0)
WITH_TEACHER = replace(GRPO, logit_distill=LogitDistillConfig(weight=0.5))
PER_EPISODE = 2
"""Tokens of an attempt."""


def played(rewards):
    """Facts of an episode whose attempts have feedback and a teacher, but for the last one."""
    went_on = [True] * (len(rewards) - 1) + [False]
    tokens = [PER_EPISODE] * len(rewards)
    return facts_of(rewards, response_tokens=tokens, feedback=went_on, has_teacher=went_on)


class Queue:
    """Plays what it is told: `problems` is a list of groups, a group a list of episodes, an episode
    its rewards.

    None in the place of a group: all of its episodes raise.
    """

    def __init__(self, problems, roles=((Role.ATTEMPT, 0), (Role.ATTEMPT, 1))):
        self.problems, self.roles = iter(enumerate(problems)), roles
        self.waiting, self.rows, self.prompts, self.played = [], {}, {}, []

    def refill(self, num):
        for number, group in itertools.islice(self.problems, num):
            self.waiting.append((number, group))
            self.played.append(number)
            self.prompts[f"p{number}"] = {"is_prompt": True}

    def sample(self, global_steps, partition_id, batch_size):
        assert batch_size == len(self.waiting), "no session is under way that nobody waits for"
        groups, self.waiting = self.waiting, []
        keys = []
        for number, group in groups:
            for s, rewards in enumerate(group or ()):
                for i, (role, turn) in enumerate(self.roles):
                    if turn < len(rewards):
                        keys.append(f"p{number}_{s}_{i}")
                        self.rows[keys[-1]] = (role, turn, played(rewards))
        if not keys:
            raise RuntimeError(
                "Sync replay buffer selected terminal groups with no materializable trajectories."
            )
        for number, _ in groups:
            del self.prompts[f"p{number}"]
        return KVBatchMeta(partition_id=partition_id, keys=keys, tags=[{} for _ in keys]), {
            "evicted_samples": 1
        }

    def get(self, keys, partition_id, select_fields):
        column = {
            ROLE: lambda r: torch.full((PER_EPISODE,), int(r[0])),
            FACTS: lambda r: r[2],
            TURN: lambda r: torch.full((PER_EPISODE,), r[1]),
            "rollout_log_probs": lambda r: torch.full((PER_EPISODE,), -9.0),
        }
        return {f: ragged([column[f](self.rows[key]) for key in keys]) for f in select_fields}

    def clear(self, partition_id, keys):
        for key in keys:
            del (self.rows if key in self.rows else self.prompts)[key]


@pytest.fixture
def sampled(monkeypatch):
    def sample(problems, *, size=2, rounds=3, config=GRPO, partition="train", **settings):
        queue = Queue(problems, **settings)
        for name, method in {"kv_batch_get": queue.get, "kv_clear": queue.clear}.items():
            monkeypatch.setattr(tq, name, method)
        monkeypatch.setattr(
            tq,
            "kv_list",
            lambda partition: {partition: {**queue.prompts, **{key: {} for key in queue.rows}}},
        )
        queue.refill(size)

        method = Method(config)
        live = LiveGroups(
            queue.sample,
            queue.refill,
            lambda step: live_groups(step.batch, method, method.weights(ONLY)),
            rounds,
        )
        batch, metrics = live(1, partition, size)
        groups = list(dict.fromkeys(key.partition("_")[0] for key in batch.keys))
        return groups, {k.removeprefix("rltf/"): v for k, v in metrics.items()}, queue

    return sample


WRONG, RIGHT, MIXED = [[0.0], [0.0]], [[1.0], [1.0]], [[0.0], [1.0]]


SAMPLED = {  # problems and settings; groups of the batch, problems played, metrics, the warning
    "a live batch is left alone": (
        [MIXED, MIXED, MIXED],
        {},
        {"p0", "p1"},
        2,
        {
            "evicted_samples": 1,
            "group/refilled": 0,
            "group/refill_rounds": 0,
            "group/left_dead": 0,
            "session/total": 0,
            "session/tokens/total": 0,
        },
        "",
    ),
    # p0 and p2 make room for p3 and p4, p3 for p5; what verl counts is of all rounds
    "dead groups make room until all are live": (
        [WRONG, MIXED, RIGHT, WRONG, MIXED, MIXED],
        {"size": 3},
        {"p1", "p4", "p5"},
        6,
        {
            "group/refilled": 3,
            "group/refill_rounds": 2,
            "group/left_dead": 0,
            "evicted_samples": 3,
        },
        "",
    ),
    "what is dropped is counted as spent": (
        [WRONG, MIXED, WRONG, MIXED],
        {},
        {"p1", "p3"},
        4,
        {"session/total": 4, "session/tokens/total": 4 * PER_EPISODE},
        "",
    ),
    "the bound leaves dead groups and the batch its size": (
        [MIXED] + [WRONG] * 9,
        {"size": 3, "rounds": 2},
        {"p0", "p5", "p6"},
        7,
        {"group/left_dead": 2, "group/refill_rounds": 2},
        "rltf.refill_rounds=2",
    ),
    "lost groups end the rounds, and the dead group stays": (
        [MIXED, WRONG, None, MIXED],
        {},
        {"p0", "p1"},
        3,
        {"group/refilled": 0, "group/left_dead": 1},
        "1 further groups were lost",
    ),
    "one lost group of several leaves a dead one in its place": (
        [WRONG, WRONG, None, MIXED],
        {"rounds": 1},
        {"p1", "p3"},
        4,
        {"group/refilled": 1, "group/left_dead": 1},
        "1 of 2 groups train nothing",
    ),
    "validation is never refilled": (
        [WRONG, WRONG, MIXED],
        {"partition": "val"},
        {"p0", "p1"},
        2,
        {"evicted_samples": 1},
        "",
    ),
}


@pytest.mark.parametrize("case", SAMPLED)
def test_which_groups_a_batch_has_and_what_is_counted(sampled, caplog, case):
    problems, settings, expected, num_played, counted, warning = SAMPLED[case]
    groups, metrics, queue = sampled(problems, **settings)
    assert (set(groups), queue.prompts) == (expected, {})
    assert {key.partition("_")[0] for key in queue.rows} == expected, "the others have left"
    assert queue.played == list(range(num_played)), "each problem once, in the data's order"
    assert counted.items() <= metrics.items()
    assert warning in caplog.text
    assert bool(warning) == bool(caplog.text)


DISTILLS = ((Role.ATTEMPT, 0), (Role.ATTEMPT, 1), (Role.DISTILL, 1))
MODELS = ((Role.ATTEMPT, 0), (Role.ATTEMPT, 1), (Role.FEEDBACK_MODELING, 0))
CORRECTED = ((Role.ATTEMPT, 0), (Role.ATTEMPT, 1), (Role.IMITATE, 1))
IMITATES = RLTFConfig(attempt=AttemptConfig(weight=0.0), imitate=ImitateConfig(weight=1.0))


def gated(gate):
    return replace(WITH_TEACHER, teacher=TeacherConfig(gate=Gate(gate)))


HALF_MENDED = [[0.0, 1.0], [0.0, 0.0]]
ALL_MENDED, NONE_MENDED = [[0.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("group", "config", "roles", "live"),
    [
        (HALF_MENDED, GRPO, DISTILLS[:2], True),  # first answers are all wrong, second ones differ
        (ALL_MENDED, GRPO, DISTILLS[:2], False),
        (
            ALL_MENDED,
            RLTFConfig(distill=DistillConfig(weight=1.0)),
            DISTILLS,
            True,
        ),  # b⁽⁰⁾ = 0, R = 1
        (NONE_MENDED, RLTFConfig(distill=DistillConfig(weight=1.0)), DISTILLS, False),
        (NONE_MENDED, RLTFConfig(distill=DistillConfig(weight=(0.0, 1.0))), DISTILLS, False),
        (
            ALL_MENDED,
            RLTFConfig(distill=DistillConfig(weight=1.0), schedule=ScheduleConfig(start_step=5)),
            DISTILLS,
            False,
        ),  # not on yet
        (
            NONE_MENDED,
            RLTFConfig(feedback_modeling=FeedbackModelingConfig(weight=0.1)),
            MODELS,
            True,
        ),
        (
            RIGHT,
            RLTFConfig(feedback_modeling=FeedbackModelingConfig(weight=0.1)),
            MODELS[:2],
            False,
        ),
        (HALF_MENDED, IMITATES, CORRECTED, True),
        (NONE_MENDED, IMITATES, CORRECTED, False),
        (
            [[0.9], [0.9], [0.9]],
            RLTFConfig(attempt=AttemptConfig(norm_by_std=True)),
            DISTILLS[:1],
            False,
        ),
        (
            [[0.1], [0.1], [0.1]],
            RLTFConfig(attempt=AttemptConfig(estimator="leave_one_out")),
            DISTILLS[:1],
            False,
        ),
        (WRONG, RLTFConfig(attempt=AttemptConfig(estimator="none")), DISTILLS[:1], False),
        (RIGHT, RLTFConfig(attempt=AttemptConfig(estimator="none")), DISTILLS[:1], True),
        # an attempt has a teacher
        (NONE_MENDED, GRPO, DISTILLS[:2], False),
        (NONE_MENDED, WITH_TEACHER, DISTILLS[:2], True),
        (WRONG, WITH_TEACHER, DISTILLS[:2], False),
        (NONE_MENDED, gated("route"), DISTILLS[:2], True),
        (NONE_MENDED, gated("sigmoid"), DISTILLS[:2], True),
        (NONE_MENDED, gated("magnitude"), DISTILLS[:2], False),
        (NONE_MENDED, gated("variance"), DISTILLS[:2], False),  # no answer is right
    ],
)
def test_a_group_is_dead_when_no_objective_that_is_on_gets_anything_from_it(
    sampled, group, config, roles, live
):
    """Whatever the rewards of single rows; the log-prob floor is not known yet, so it kills
    none.
    """
    _, metrics, _ = sampled([group], size=1, rounds=0, config=config, roles=roles)
    assert metrics["group/left_dead"] == (0 if live else 1)


def test_a_problem_that_a_step_draws_again_has_another_number():
    draws = Draws()

    def numbers(step, *rows):
        columns = {
            "data_source": np.array([source for source, _ in rows], dtype=object),
            "index": np.array([index for _, index in rows], dtype=object),
        }
        return list(draws.number(tu.get_tensordict(columns), step)[DRAW])

    assert numbers(1, ("a", 0), ("a", 1), ("b", 0), ("a", 0)) == [0, 0, 0, 1]
    assert numbers(1, ("a", 0), ("b", 0), ("b", 1)) == [2, 1, 0]
    assert numbers(2, ("a", 0), ("b", 0)) == [0, 0]
