"""Columns and metrics on sessions whose numbers are plain to see."""

import math

import pytest
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

from rltf_verl.adapters.columns import (
    FACTS,
    ROLE,
    SESSION_FACTS,
    TURN,
    RowOutput,
    ragged,
    row_columns,
    session_facts,
    session_of,
)  # fmt: skip
from rltf_verl.adapters.metrics import FORBIDDEN_SUBSTRINGS, role_metrics, session_metrics, validation_info
from rltf_verl.algos.pack import pack_rows
from rltf_verl.algos.targets import compute_targets
from rltf_verl.episode.rows import episode_to_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Turn


def turn(correct, *, k=0, tokens=2, ended=True, format_ok=True, feedback=None, error=None):
    ids = tuple(range(tokens))
    log_probs = (-1.0,) * tokens
    reward = float(correct) + 0.1 * (float(format_ok and ended) - 1.0)
    attempt = Attempt((100 + k,), ids, log_probs, "", ended)
    return Turn(attempt, Grade(correct, format_ok, error=error), reward, feedback)


def session(*turns, stop="horizon"):
    return Episode(Problem("x", 0, {}, ""), 0, tuple(turns), stop)


SAYS = Feedback("two words", "verifier", latency_s=2.0)
FALLBACK = Feedback("one two three four", "correctness", latency_s=4.0, fallback=True)
SESSIONS = [
    session(turn(True, tokens=4), stop="solved"),
    session(turn(False, feedback=SAYS), turn(True, k=1, tokens=6), stop="solved"),
    session(turn(True, feedback=FALLBACK), turn(False, k=1, ended=False), stop="feedback_unavailable"),
    session(turn(False, format_ok=False, error="E: x", feedback=SAYS), stop="prompt_too_long"),
]


def facts_of(sessions, horizon):
    return torch.stack([session_facts(s, horizon) for s in sessions])


def test_facts_are_nan_where_nothing_was_played():
    facts = session_facts(SESSIONS[0], 3)
    assert facts.shape == (3, len(SESSION_FACTS))
    assert not torch.isnan(facts[0]).any()
    assert torch.isnan(facts[1:]).all()


def test_session_metrics_with_known_answers():
    metrics = session_metrics(facts_of(SESSIONS, 2))
    assert metrics == pytest.approx(
        {
            "rltf/session/turns": 1.5,
            "rltf/turn_1/share": 1.0,
            "rltf/turn_1/acc": 0.5,
            "rltf/turn_1/format": 0.75,
            "rltf/turn_1/reward": (1.0 + 0.0 + 1.0 - 0.1) / 4,
            "rltf/turn_1/tokens": (4 + 2 + 2 + 2) / 4,
            "rltf/turn_1/truncated": 0.0,
            "rltf/turn_2/share": 0.5,
            "rltf/turn_2/acc": 0.5,
            "rltf/turn_2/format": 0.5,
            "rltf/turn_2/reward": (1.0 - 0.1) / 2,
            "rltf/turn_2/tokens": 4.0,
            "rltf/turn_2/truncated": 0.5,
            "rltf/turn_2/gain": 0.0,
            "rltf/turn_2/fixed": 0.5,
            "rltf/turn_2/broken": 0.5,
            # 6 turns were played; feedback was asked for 4 times and given 3 times
            "rltf/grader/error_share": 1 / 6,
            "rltf/session/prompt_too_long_share": 1 / 4,
            "rltf/feedback/failed_share": 0.25,
            "rltf/feedback/fallback_share": 0.25,
            "rltf/feedback/latency_s": 8 / 3,
            "rltf/feedback/words": 8 / 3,
        },
        abs=1e-6,
    )


def test_session_metrics_over_three_turns_count_those_who_got_there():
    sessions = [
        session(turn(False, feedback=SAYS), turn(False, feedback=SAYS), turn(True)),
        session(turn(False, feedback=SAYS), turn(True), stop="solved"),
        session(turn(True), stop="solved"),
    ]
    metrics = session_metrics(facts_of(sessions, 3))
    assert [metrics[f"rltf/turn_{k}/share"] for k in (1, 2, 3)] == pytest.approx([1, 2 / 3, 1 / 3])
    assert [metrics[f"rltf/turn_{k}/acc"] for k in (1, 2, 3)] == pytest.approx([1 / 3, 0.5, 1.0])
    assert [metrics[f"rltf/turn_{k}/gain"] for k in (2, 3)] == pytest.approx([0.5, 1.0])
    assert metrics["rltf/session/turns"] == pytest.approx(2.0)


def test_session_metrics_when_everyone_stopped_early_or_failed():
    solved = session_metrics(facts_of([session(turn(True), stop="solved")] * 3, 2))
    assert (solved["rltf/turn_1/acc"], solved["rltf/turn_2/share"]) == (1.0, 0.0)
    assert not any(name.startswith(("rltf/turn_2/acc", "rltf/feedback")) for name in solved)

    failed = session_metrics(facts_of([session(turn(False, feedback=SAYS), turn(False))] * 3, 2))
    assert (failed["rltf/turn_1/acc"], failed["rltf/turn_2/acc"], failed["rltf/turn_2/gain"]) == (0.0, 0.0, 0.0)
    assert not any(math.isnan(v) for v in [*solved.values(), *failed.values()])


def test_validation_reports_the_first_turn_and_the_answer_that_stands():
    right_then_wrong = session(turn(True), turn(False))
    assert validation_info(right_then_wrong, 2) == {"acc": 1.0, "format_ok": 1.0, "acc_turn_2": 0.0}
    assert validation_info(session(turn(False, ended=False), turn(True)), 2) == {
        "acc": 0.0, "format_ok": 0.0, "acc_turn_2": 1.0,
    }  # fmt: skip
    early = session(turn(True), stop="solved")  # keeps its last answer
    assert validation_info(early, 3) == {"acc": 1.0, "format_ok": 1.0, "acc_turn_2": 1.0, "acc_turn_3": 1.0}
    assert validation_info(early, 1) == {"acc": 1.0, "format_ok": 1.0}


def packed(sessions, group, student=-3.0):
    rows, index, old = [], [], []
    for s, episode in enumerate(sessions):
        for row in episode_to_rows(episode, distill=True):
            rows.append(row)
            index.append(s)
            old.append([student] * len(row.mask) if row.role is Role.DISTILL else list(row.log_probs))
    return pack_rows(rows, index, group, old)


def test_role_metrics_with_known_answers():
    sessions = [session(turn(True), stop="solved"), session(turn(False), turn(True, k=1, tokens=4))]
    batch = packed(sessions, [0, 0])
    targets = compute_targets(batch, gamma=0.0, distill_weight=0.5)
    assert role_metrics(batch, targets, 0.5) == pytest.approx(
        {
            "rltf/rows/per_session": 2.0,
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
            "rltf/distill/log_prob_gap": 2.0,
            "rltf/distill/weight": 0.5,
            "rltf/group/dead_share": 0.0,
        },
        abs=1e-6,
    )


def test_dead_groups_are_those_with_equal_first_turn_rewards():
    wrong, right = session(turn(False), turn(True, k=1)), session(turn(True), stop="solved")
    batch = packed([wrong, wrong, wrong, right, right, right], [0, 0, 1, 1, 2, 2])
    metrics = role_metrics(batch, compute_targets(batch, gamma=0.1, distill_weight=0.1), 0.1)
    assert metrics["rltf/group/dead_share"] == pytest.approx(2 / 3)


def test_floor_masked_share():
    batch = packed([session(turn(False), turn(True, k=1))], [0], student=-6.0)
    metrics = role_metrics(batch, compute_targets(batch, gamma=0.1, distill_weight=0.1), 0.1)
    assert (metrics["rltf/distill/floor_masked"], metrics["rltf/distill/adv_abs"]) == (1.0, 0.0)


def test_no_metric_name_makes_verl_reduce_it_by_something_else_than_the_mean():
    batch = packed(SESSIONS, [0, 0, 1, 1])
    names = {
        *session_metrics(facts_of(SESSIONS, 2)),
        *role_metrics(batch, compute_targets(batch, gamma=0.1, distill_weight=0.1), 0.1),
        *validation_info(SESSIONS[1], 3),
    }
    assert len(names) > 35
    assert [n for n in names if any(word in n.removesuffix("/max") for word in FORBIDDEN_SUBSTRINGS)] == []


def outputs(episode):
    facts = session_facts(episode, 2)
    return [
        RowOutput(
            prompt_ids=list(row.prompt_ids), response_ids=list(row.response_ids), response_mask=list(row.mask),
            response_logprobs=list(row.log_probs), reward_score=episode.turns[-1].reward, num_turns=4,
            metrics=AgentLoopMetrics(), extra_fields={"reward_extra_info": {}}, columns=row_columns(row, facts),
        )
        for row in episode_to_rows(episode, distill=True)
    ]  # fmt: skip


def test_rows_keep_their_own_rewards_when_verl_copies_the_last_ones_over_them():
    merged = session(turn(False, format_ok=False), turn(True, k=1, tokens=3))
    rows = outputs(merged)
    for output in rows[:-1]:  # agent_loop_tq._agent_loop_postprocess
        output.reward_score = rows[-1].reward_score
        output.extra_fields["reward_extra_info"] = rows[-1].extra_fields["reward_extra_info"]
    fields = [output.as_dict() for output in rows]
    first, distill, last = fields
    assert [f[ROLE].item() for f in fields] == [Role.ATTEMPT, Role.DISTILL, Role.ATTEMPT]
    torch.testing.assert_close(first["rm_scores"], torch.tensor([0.0, -0.1]))
    assert distill["rm_scores"].tolist() == last["rm_scores"].tolist() == [0.0, 0.0, 1.0]
    assert [f[TURN].tolist() for f in fields] == [[0, 0], [1, 1, 1], [1, 1, 1]]
    for f in fields:
        torch.testing.assert_close(f[FACTS], session_facts(merged, 2), equal_nan=True)
        assert "columns" not in f
        assert f["responses"].shape == f["response_mask"].shape == f["rm_scores"].shape == f["rollout_log_probs"].shape
    assert rows[0].as_dict()["rm_scores"].tolist() == first["rm_scores"].tolist()  # asking twice changes nothing


def test_keys_of_the_transfer_queue():
    assert session_of("u1_3_0") == ("u1", "u1_3")
    assert session_of("with_underscores_12_4") == ("with_underscores", "with_underscores_12")


def test_ragged_columns():
    values = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    nested = ragged(values)
    assert nested.is_nested
    assert nested.layout == torch.jagged
    assert [v.tolist() for v in nested.unbind()] == [[1.0, 2.0], [3.0]]
