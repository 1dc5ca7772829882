"""Columns and metrics on episodes whose numbers are plain to see."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

from rltf_verl.adapters.metrics.episodes import episode_metrics
from rltf_verl.adapters.metrics.roles import (
    role_metrics,
    with_grad_shares,
)
from rltf_verl.adapters.metrics.validation import averaged_info
from rltf_verl.adapters.queue.columns import (
    FACTS,
    ROLE,
    TURN,
    episode_batch,
    episode_facts,
    row_columns,
)
from rltf_verl.adapters.rollout.agent_loop import RowOutput
from rltf_verl.config import DistillConfig, RLTFConfig
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.feedback import provider_names
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import VERL_REDUCES
from rltf_verl.objectives.distill import Distill, distill_rows
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Turn
from tests.support.methods import ONLY
from tools.parity.pack import pack_episodes, pack_rows


def turn(
    correct, *, k=0, tokens=2, ended=True, format_ok=True, feedback=None, error=None, stop=None
):
    ids = tuple(range(tokens))
    log_probs = (-1.0,) * tokens
    reward = float(correct) + 0.1 * (float(format_ok and ended) - 1.0)
    attempt = Attempt((100 + k,), ids, log_probs, f"so {correct}", ended)
    return Turn(attempt, Grade(correct, format_ok, error=error), reward, feedback, stop=stop)


def session(*turns):
    return Episode(Problem("x", 0, {}, ""), 0, turns)


SAYS = Feedback("two words", "verifier", latency_s=2.0)
FALLBACK = Feedback("one two three four", "correctness", latency_s=4.0, fallback=True)
SESSIONS = [
    session(turn(True, tokens=4)),
    session(turn(False, feedback=SAYS), turn(True, k=1, tokens=6)),
    session(
        turn(True, feedback=FALLBACK), turn(False, k=1, ended=False, stop="feedback_unavailable")
    ),
    session(turn(False, format_ok=False, error="E: x", feedback=SAYS, stop="prompt_too_long")),
]


def metrics_of(sessions, horizon):
    return episode_metrics(torch.stack([episode_facts(s, horizon) for s in sessions]), horizon)


def test_facts_come_back_as_the_episodes_that_they_were_made_of():
    ungraded = session(replace(turn(False, stop="ungraded"), reward=0.0))
    episodes = [*SESSIONS, session(turn(False), turn(True), turn(False)), ungraded]
    facts = torch.stack([episode_facts(each, 3) for each in episodes])
    ours, theirs = episode_batch(facts, torch.zeros(6).long()), pack_episodes(episodes, [0] * 6)
    for name in ("valid", "correct", "group", "cut", "ungraded", "rewards", "graded"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    assert ours.cut.sum() == 3


def test_episode_metrics_with_known_answers():
    metrics = metrics_of(SESSIONS, 2)
    assert metrics == pytest.approx(
        {
            "rltf/session/total": 4.0,
            "rltf/session/tokens/total": 4 + 2 + 6 + 2 + 2 + 2,
            "rltf/session/turns": 1.5,
            "rltf/turn_1/share": 1.0,
            "rltf/turn_1/acc": 0.5,
            "rltf/turn_1/format": 1.0,  # the grader raised at the other one
            "rltf/turn_1/reward": (1.0 + 0.0 + 1.0 - 0.1) / 4,
            "rltf/turn_1/tokens": (4 + 2 + 2 + 2) / 4,
            "rltf/turn_1/truncated": 0.0,
            "rltf/turn_1/thoughts": 0.0,
            "rltf/turn_1/epistemic": 0.0,
            "rltf/turn_2/share": 0.5,
            "rltf/turn_2/acc": 0.5,
            "rltf/turn_2/format": 0.5,
            "rltf/turn_2/reward": (1.0 - 0.1) / 2,
            "rltf/turn_2/tokens": 4.0,
            "rltf/turn_2/truncated": 0.5,
            "rltf/turn_2/thoughts": 0.0,
            "rltf/turn_2/epistemic": 0.0,
            "rltf/turn_2/gain": 0.0,
            "rltf/turn_2/fixed": 0.5,
            "rltf/turn_2/broken": 0.5,
            "rltf/turn_2/corrected": 1.0,
            "rltf/turn_2/spoiled": 1.0,
            "rltf/turn_2/plasticity": 1.0,
            "rltf/turn_2/repeated": 0.0,
            "rltf/turn_2/solved": 0.75,
            "rltf/turn_2/standing": 0.5,
            "rltf/session/friction": 0.0,
            # 6 turns were played; feedback was asked for 4 times and given 3 times
            "rltf/grader/error_share": 1 / 6,
            "rltf/grader/ungraded_share": 0.0,
            "rltf/session/prompt_too_long_share": 1 / 4,
            "rltf/session/not_asked_share": 0.0,
            "rltf/feedback/failed_share": 0.25,
            "rltf/feedback/fallback_share": 0.25,
            "rltf/feedback/withheld_share": 0.0,
            "rltf/feedback/latency_s": 8 / 3,
            "rltf/feedback/words": 8 / 3,
            "rltf/feedback/no_op": 0.0,
            "rltf/feedback/recited": 0.0,
        },
        abs=1e-6,
    )


@pytest.mark.parametrize(
    ("sessions", "horizon", "expected"),
    [
        # an episode that was not asked for is no failure
        (
            [session(turn(False, stop="not_asked")), session(turn(True, stop="solved"))]
            + [session(turn(False, feedback=SAYS), turn(False, stop="horizon"))] * 2,
            2,
            {"session/not_asked_share": 1 / 4, "feedback/failed_share": 0.0, "turn_2/share": 0.5},
        ),
        # an attempt without a verdict is left out of the mean reward
        (
            [
                session(turn(True)),
                session(replace(turn(False, stop="ungraded"), reward=0.0)),
            ],
            1,
            {"turn_1/reward": 1.0, "turn_1/acc": 1.0},
        ),
    ],
)
def test_single_episode_metrics(sessions, horizon, expected):
    metrics = metrics_of(sessions, horizon)
    assert {name: metrics[f"rltf/{name}"] for name in expected} == expected


def test_leak_share_is_over_what_the_guard_looked_at():
    clean, leaky = replace(SAYS, leak=""), replace(SAYS, leak="answer: 1")
    mended = Feedback("other words", "siblings", leak="part: 2", original="told")
    dropped = replace(
        turn(False, stop="feedback_unavailable"), withheld=replace(leaky, provider="somebody's own")
    )
    replaced = replace(turn(False, feedback=FALLBACK), withheld=leaky)
    sessions = [
        session(turn(False, feedback=clean), turn(True)),
        session(turn(False, feedback=SAYS), turn(True)),  # nobody looked
        session(turn(False, feedback=mended), replaced, turn(True)),
        session(dropped),
    ]
    metrics = metrics_of(sessions, 3)
    shares = {name: value for name, value in metrics.items() if "leak" in name}
    assert shares == pytest.approx(
        {
            "rltf/feedback/leak_share": 3 / 4,
            "rltf/feedback/leak_share/verifier": 1 / 2,
            "rltf/feedback/leak_share/siblings": 1.0,
            "rltf/feedback/leak_share/other": 1.0,
        }
    )
    assert metrics["rltf/feedback/fallback_share"] == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("episode", "horizon", "expected"),
    [
        (
            session(turn(True), turn(False)),
            2,
            {"acc": 1.0, "format_ok": 1.0, "acc_turn_2": 0.0},
        ),
        (
            session(turn(False, ended=False), turn(True)),
            2,
            {"acc": 0.0, "format_ok": 0.0, "acc_turn_2": 1.0},
        ),
        # one that ended early keeps its last answer
        (
            session(turn(True)),
            3,
            {"acc": 1.0, "format_ok": 1.0, "acc_turn_2": 1.0, "acc_turn_3": 1.0},
        ),
        (session(turn(True)), 1, {"acc": 1.0, "format_ok": 1.0}),
    ],
)
def test_validation_reports_the_first_turn_and_the_answer_that_stands(episode, horizon, expected):
    assert averaged_info(episode, horizon) == expected


def rows_of(episode):
    *first, last = attempt_rows(episode)
    return [*first, *distill_rows(episode), last]


def packed(sessions, group, student=-3.0):
    rows, index, old = [], [], []
    for s, episode in enumerate(sessions):
        for row in rows_of(episode):
            rows.append(row)
            index.append(s)
            old.append(
                [student] * len(row.role) if row.role[0] == Role.DISTILL else list(row.log_probs)
            )
    return pack_rows(rows, index, pack_episodes(sessions, group), old)


def metrics_of_roles(batch, gamma=0.1, weight=0.1):
    config = RLTFConfig(gamma=gamma, distill=DistillConfig(weight=weight))
    method = Method(config)
    weights = method.weights(ONLY)
    targets = compute_targets(batch, method, weights)
    return role_metrics(method.token_owners, batch, targets, weights)


def test_role_metrics_with_known_answers():
    sessions = [session(turn(True)), session(turn(False), turn(True, k=1, tokens=4))]
    batch = packed(sessions, [0, 0])
    assert metrics_of_roles(batch, gamma=0.0, weight=0.5) == pytest.approx(
        {
            "rltf/rows/per_session": 2.0,
            "rltf/attempt/weight": 1.0,
            "rltf/attempt/row_share": 0.75,
            "rltf/attempt/token_share": 8 / 12,
            "rltf/attempt/adv_abs": (4 * 0.5 + 4 * 0.0) / 8,
            "rltf/attempt/adv_mean": 0.0,
            "rltf/attempt/log_prob_mean": -1.0,
            "rltf/attempt/sampler_log_prob_diff/max": 0.0,
            "rltf/distill/row_share": 0.25,
            "rltf/distill/token_share": 4 / 12,
            "rltf/distill/adv_abs": 0.25,
            "rltf/distill/adv_mean": 0.25,
            "rltf/distill/log_prob_mean": -3.0,
            "rltf/distill/floor_masked": 0.0,
            "rltf/distill/floor_masked_right": 0.0,
            "rltf/distill/log_prob_gap": 2.0,
            "rltf/distill/ess": 1.0,
            "rltf/distill/wrong_share": 0.0,
            "rltf/distill/weight": 0.5,
            "rltf/group/dead_share": 0.0,
            "frac_reward_zero_std": 0.0,
        },
        abs=1e-6,
    )


def test_no_metric_name_makes_verl_reduce_it_by_something_else_than_the_mean():
    batch = packed(SESSIONS, [0, 0, 1, 1])
    names = {*metrics_of(SESSIONS, 2), *metrics_of_roles(batch), *averaged_info(SESSIONS[1], 3)}
    assert len(names) > 35
    names |= {*provider_names()}  # they stand in names of metrics
    for name in names:
        assert not any(word in re.sub("/(max|total)$", "", name) for word in VERL_REDUCES), name


def test_every_metric_is_explained():
    text = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    leaky = session(turn(False, feedback=replace(SAYS, leak="answer: 1")), turn(True))
    batch = packed(SESSIONS, [0, 0, 1, 1])
    for name in {
        *metrics_of([*SESSIONS, leaky], 2),
        *metrics_of_roles(batch),
        "rltf/attempt/grad_share",
    }:
        if "/" not in name:
            assert f"`{name}`" in text, name
            continue
        _, group, last, *_ = name.split("/")
        shown = (
            f"`{last}`"
            if group.startswith("turn_") or group in ("attempt", "distill")
            else f"`{name}"
        )
        places = (f"`{name}`", shown, f"`rltf/{group}/{last}/<provider>`")
        assert any(place in text for place in places), name


def test_rows_keep_their_own_rewards_when_verl_copies_the_last_ones_over_them():
    merged = session(turn(False, format_ok=False), turn(True, k=1, tokens=3))
    facts = episode_facts(merged, 2)
    rows = [
        RowOutput(
            prompt_ids=list(row.prompt_ids),
            response_ids=list(row.response_ids),
            response_mask=[1] * len(row.role),
            response_logprobs=list(row.log_probs),
            reward_score=merged.turns[-1].reward,
            num_turns=4,
            metrics=AgentLoopMetrics(),
            extra_fields={"reward_extra_info": {}},
            columns=row_columns(row, facts),
        )
        for row in rows_of(merged)
    ]
    for output in rows[:-1]:  # agent_loop_tq._agent_loop_postprocess
        output.reward_score = rows[-1].reward_score
        output.extra_fields["reward_extra_info"] = rows[-1].extra_fields["reward_extra_info"]
    fields = [output.as_dict() for output in rows]
    first, distill, last = fields
    assert [f[ROLE].unique().item() for f in fields] == [Role.ATTEMPT, Role.DISTILL, Role.ATTEMPT]
    torch.testing.assert_close(first["rm_scores"], torch.tensor([0.0, -0.1]))
    assert distill["rm_scores"].tolist() == last["rm_scores"].tolist() == [0.0, 0.0, 1.0]
    assert [f[TURN].tolist() for f in fields] == [[0, 0], [1, 1, 1], [1, 1, 1]]
    for f in fields:
        torch.testing.assert_close(f[FACTS], facts, equal_nan=True)
        assert "columns" not in f


def test_gradient_shares():
    assert with_grad_shares(
        {"rltf/attempt/grad": 3.0, "rltf/distill/grad": 1.0, "actor/pg_loss": 5.0}
    ) == {"rltf/attempt/grad_share": 0.75, "rltf/distill/grad_share": 0.25, "actor/pg_loss": 5.0}
    assert with_grad_shares({"rltf/attempt/grad": 0.0}) == {}


WRONG_RIGHT = session(turn(False), turn(True, k=1, tokens=4))
BAD = session(turn(False), turn(True, k=1))
ODDS = -1.0 + math.log(10)


@pytest.mark.parametrize(
    ("sessions", "group", "old", "expected"),
    [
        # first-turn rewards are equal in two groups of three
        (
            [BAD] * 3 + [session(turn(True))] * 3,
            [0, 0, 1, 1, 2, 2],
            None,
            {"group/dead_share": 2 / 3},
        ),
        # half of the tokens are ten times likelier under the first prompt: weights 1 and 10
        (
            [WRONG_RIGHT],
            [0],
            [-1.0, -1.0, ODDS, ODDS],
            {"distill/ess": (2 * 11) ** 2 / (4 * 2 * 101)},
        ),
        # of the right answer's four tokens one is below the floor, of the wrong one's two both
        (
            [WRONG_RIGHT, session(turn(False), turn(False, k=1))],
            [0, 0],
            [-1.0, -6.0, -1.0, -1.0, -7.0, -7.0],
            {"distill/floor_masked": 0.5, "distill/floor_masked_right": 0.25},
        ),
        # four tokens of the right answer weigh 1 each, two of a wrong one that has a reward 0.6
        (
            [WRONG_RIGHT, session(turn(False), replace(turn(False, k=1), reward=0.6))],
            [0, 0],
            None,
            {"distill/wrong_share": 1.2 / 5.2, "distill/partial_share": 1.2 / 5.2},
        ),
        # what the form costs is no grade in parts: right but cut off has 0.9, no answer −0.1
        (
            [
                session(turn(False), turn(True, k=1, ended=False)),
                session(turn(False), turn(False, k=1, format_ok=False)),
                BAD,
            ],
            [0, 0, 0],
            None,
            {"distill/wrong_share": 0.0, "distill/partial_share": None},
        ),
        # of two right ones, with two tokens each, one has a score of 0.7
        (
            [BAD, session(turn(False), replace(turn(True, k=1), reward=0.7))],
            [0, 0],
            None,
            {"distill/wrong_share": 0.0, "distill/partial_share": 0.7 / 1.7},
        ),
    ],
)
def test_single_role_metrics(sessions, group, old, expected):
    """`old`: log-probs of the distilled tokens under the first prompt."""
    batch = packed(sessions, group)
    values = batch.old_log_probs.clone()
    if old is not None:
        values[batch.tokens(Role.DISTILL)] = torch.tensor(old)
    metrics = metrics_of_roles(replace(batch, old_log_probs=values))
    assert {name: metrics.get(f"rltf/{name}") for name in expected} == pytest.approx(expected)
    assert metrics["frac_reward_zero_std"] == metrics["rltf/group/dead_share"], "TRL's name"


BLOCKED = {"rltf/distill/floor_masked_right": 0.2, "rltf/turn_1/acc": 0.0}


@pytest.mark.parametrize(
    ("config", "steps", "num_warnings"),
    [
        ({}, [BLOCKED] * 4, 0),
        ({}, [BLOCKED] * 5, 1),
        ({}, [BLOCKED] * 54, 1),
        ({}, [BLOCKED] * 55, 2),
        ({}, ([BLOCKED] * 4 + [{**BLOCKED, "rltf/turn_1/acc": 0.01}]) * 3, 0),
        ({}, [{**BLOCKED, "rltf/distill/floor_masked_right": 0.09}] * 9, 0),
        ({}, [{"rltf/turn_1/acc": 0.0}] * 9, 0),
        ({"floor": "soft"}, [BLOCKED] * 9, 0),
    ],
)
def test_a_floor_that_keeps_out_what_is_to_be_learnt_is_warned_about_now_and_then(
    caplog, config, steps, num_warnings
):
    watch = Distill("distill", Role.DISTILL, DistillConfig(weight=0.1, **config), RLTFConfig())
    for metrics in steps:
        watch.on_step_end(metrics)
    assert caplog.text.count("rltf.distill.log_prob_floor=-5.0") == num_warnings
