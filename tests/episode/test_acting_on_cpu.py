"""Attempts that are trajectories: ends, limits, tokens and faults."""

import asyncio
import json
import random
import threading
import time
from dataclasses import replace

import pytest

from rltf_verl.config import TeacherConfig
from rltf_verl.episode.acting import call_arguments, first_messages
from rltf_verl.episode.classes import with_classes
from rltf_verl.episode.rows import attempt_rows, first_prompt_row
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.policy import Calls
from rltf_verl.runlog.record import turn_record
from rltf_verl.types import CONTEXT, Note, Role

from ..support.acting_fakes import ActorEnv, ScriptedActor, call
from ..support.episode_fakes import (
    PROBLEM,
    QUESTION,
    ScriptedProvider,
    parts_with,
    play_parts,
    text_of,
)
from ..support.waiting import until


def played(answers, env=None, *, policy=None, provider=None, **episode):
    """The episode of an actor that gives these answers; one attempt unless the test says more."""
    parts = parts_with(
        env or ActorEnv(),
        provider or ScriptedProvider("do win"),
        **{"horizon": 1, "revise": "compact", **episode},
    )
    return asyncio.run(play_parts(parts, policy or ScriptedActor(answers)))


def only_turn(*args, **options):
    (turn,) = played(*args, **options).turns
    return turn


WON = [call("ok"), call("win")]
ENDS = {
    "done": (WON, {}, "done", True),
    "answered": ([call("ok"), "It is done."], {}, "answered", False),
    "steps": ([call("ok")] * 2, {"steps": 2}, "steps", False),
    "several calls in an answer": ([call("ok") + call("win") + call("ok")], {}, "done", True),
    "the last call of the limit is played": ([call("win")], {"steps": 1}, "done", True),
    "errors in a row": ([call("bad")] * 2, {"invalid_actions": 2}, "invalid", False),
    "errors apart": ([call("bad"), call("ok"), call("bad"), call("win")], {"invalid_actions": 2},
                     "done", True),
    "calls that cannot be read": (["<call>{</call>"] * 3, {}, "invalid", False),
    "a call that never closes": (["<call>{"] * 3, {}, "invalid", False),
    "a parser that raises": (["<call>[]</call>"] * 3, {}, "invalid", False),
    "an unknown tool": ([call("win", "dig"), call("win")], {}, "done", True),
    "one readable call of two": ([call("ok") + "<call>{</call>", call("win")], {}, "done", True),
    "stall": ([call("stall")], {"step_s": 0.5}, "deadline", False),
    "attempt's seconds": ([call("ok"), call("stall")], {"attempt_s": 0.6}, "deadline", False),
    "raise": ([call("raise")], {}, "environment_error", False),
    "exit": ([call("exit")], {}, "environment_error", False),
    "no step": ([call("nothing")], {}, "environment_error", False),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_reason(name):
    answers, limits, end, correct = ENDS[name]
    env = ActorEnv(**limits)
    turn = only_turn(answers, env)
    env.over.set()
    trajectory = turn.attempt.trajectory
    assert (trajectory.end, turn.grade.correct) == (end, correct)
    assert trajectory.state is None
    assert len(trajectory.steps) == len(answers)
    assert not any(world.open for world in env.worlds)
    assert turn.stop == ("ungraded" if end == "environment_error" else "horizon" if not correct
                         else "solved")  # fmt: skip


@pytest.mark.parametrize(
    ("method", "answers"),
    [("open", WON), ("open", ["it is 12"]), ("look", WON), ("grade", WON), ("close", WON)],
)
def test_an_environment_that_exits_ends_its_attempt_alone(method, answers):
    env = ActorEnv()
    env.fails = (method,)
    turn = only_turn(answers, env)
    assert turn.grade.correct == (method in ("look", "close"))
    assert (turn.stop == "ungraded") == (method == "open")
    assert len(turn.attempt.response_ids) > 0


def test_a_state_that_opens_too_late_is_closed():
    class Late(ActorEnv):
        def open(self, problem, seed):
            time.sleep(0.1)
            return super().open(problem, seed)

    env = Late(attempt_s=0.02)

    async def play():
        parts = parts_with(env, ScriptedProvider(), horizon=1)
        await play_parts(parts, ScriptedActor(WON))
        await until(lambda: env.worlds and not env.worlds[0].open)

    asyncio.run(play())
    assert len(env.worlds) == 1


def test_a_cancelled_episode_closes_its_state():
    env = ActorEnv()

    async def play():
        parts = parts_with(env, ScriptedProvider(), horizon=1)
        task = asyncio.ensure_future(play_parts(parts, ScriptedActor([call("stall")])))
        await until(lambda: env.worlds and env.worlds[0].done == ["stall"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert [world.open for world in env.worlds] == [False]


@pytest.mark.parametrize(
    ("counts", "correct", "stop"),
    [("grade", True, "solved"), ("zero", False, "horizon"), ("leave_out", False, "ungraded")],
)
def test_what_an_end_counts_is_chosen(counts, correct, stop):
    turn = only_turn(WON, ends={"done": counts})
    assert (turn.grade.correct, turn.stop, turn.reward) == (correct, stop, float(correct))
    if counts == "zero":  # feedback reads what the grader saw
        assert turn.grade.details == {"done": ["ok", "win"]}


BROKEN = {
    "half a surrogate": ("do", '{"what": "win\\ud800"}', "ok"),
    "not a number": ("do", '{"what": NaN}', "format"),
    "an infinite number": ("do", '{"what": 1e999}', "format"),
    "too deep": ("do", "[" * 100_000, "format"),
    "as deep as a decoder reads": ("do", '{"what": ' + "[" * 600 + "]" * 600 + "}", "format"),
    "too long": ("do", '{"what": "' + "x" * 300_000 + '"}', "format"),
    "a list": ("do", "[1]", "format"),
    "no JSON": ("do", "{", "format"),
    "a name that is no tool": ("dig", '{"what": "win"}', "error"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_arguments_are_what_a_log_can_hold(name):
    tool, arguments, kind = BROKEN[name]

    class Parsed(ScriptedActor):
        async def read_calls(self, ids):
            return Calls(((tool, arguments),) if self.seeds[1:] == [] else ())

    turn = only_turn(None, policy=Parsed(["a call", "no"]))
    assert turn.attempt.trajectory.steps[0].results[0].kind == kind
    json.dumps(turn_record(turn), allow_nan=False, ensure_ascii=False).encode()


def test_arguments_are_as_clean_as_observations():
    read = call_arguments('{"a\\ud800": [{"b\\u0000c": "\\ud83d\\r\\n"}], "n": [1, null, true]}')
    assert read == {"a\ufffd": [{"bc": "\ufffd\n"}], "n": [1, None, True]}


def test_a_tools_name_with_control_tokens_is_quoted():
    turn = only_turn([call("ok", "<|im_end|>"), "no"])
    assert "<< |im_end|>>" in text_of(turn.attempt.response_ids)


def test_observations_are_cut_cleaned_and_defused():
    turn = only_turn([call("flood"), call("half"), call("win")])
    flood, half, _ = turn.attempt.trajectory.steps
    assert len(flood.results[0].observation) < 60
    assert "\ud800" not in half.results[0].observation
    observed = text_of(turn.attempt.response_ids)
    assert "[cut]" in observed
    assert "<|im_end|>" not in observed


def test_a_full_row_ends_the_attempt_before_anything_is_cut():
    answers = [call("ok")] * 9
    whole = only_turn([*answers[:3], call("win")]).attempt
    for budget in range(10, len(whole.response_ids)):
        attempt = only_turn(None, policy=ScriptedActor(answers, response_budget=budget)).attempt
        assert attempt.trajectory.end in ("length", "context")
        assert len(attempt.response_ids) <= budget
        assert attempt.spans[-1][1] == len(attempt.response_ids), "the last token was sampled"
        assert attempt.ended is False


def test_the_first_prompt_shows_the_first_look():
    env = ActorEnv()
    env.shown = "A door.<|im_end|>\ud800"
    (_, question) = asyncio.run(first_messages(env, PROBLEM, QUESTION))
    assert question == {
        "role": "user",
        "content": "Q?\n\nA door.< |im_end|>\N{REPLACEMENT CHARACTER}",
    }
    assert [world.open for world in env.worlds] == [False]


def test_drift_is_counted_and_the_sampled_tokens_stay():
    attempts = [
        only_turn(None, policy=ScriptedActor(WON, drifts=drifts)).attempt for drifts in (0, 1)
    ]
    assert [attempt.info["num_drifts"] for attempt in attempts] == [0, 1]
    for attempt in attempts:
        assert text_of(attempt.response_ids[slice(*attempt.spans[0])]) == WON[0] + "\0"


def test_without_tools_the_answer_is_the_action():
    turn = only_turn(["<think>win</think>ok", "win"], ActorEnv(tools=()))
    first, last = turn.attempt.trajectory.steps
    assert [action.text for action in (*first.actions, *last.actions)] == ["ok", "win"]
    assert "<user>ok!" in text_of(turn.attempt.response_ids)


def test_each_step_has_a_seed_and_attempts_share_their_world():
    env = ActorEnv()
    policy = ScriptedActor([call("ok"), "no", call("win")])
    played(None, env, policy=policy, horizon=2)
    places = [seed.to_bytes(20, "big").strip(b"\0").decode() for seed in policy.seeds]
    assert places == ["0", "0/step1", "1"]
    assert len({world.seed for world in env.worlds}) == 1


def test_the_verifiers_notes_name_their_steps():
    policy = ScriptedActor([call("ok"), "no", call("win")])
    first, _ = played(None, policy=policy, provider=VerifierProvider(), horizon=2).turns
    assert first.feedback.text == "Step 2: do win here\nand be quick"
    assert [note.step for note in first.feedback.notes] == [1, None]
    assert "[observation]\nok!" in policy.prompts[-1], "the next prompt shows the trajectory"


def test_rows_train_what_was_sampled_and_nothing_else():
    """Properties of random trajectories."""
    rng = random.Random(0)
    for _ in range(50):
        words = rng.choices(["ok", "bad", "flood", "half"], k=rng.randrange(6))
        answers = [call(word) * rng.randrange(1, 3) for word in words] + [
            rng.choice(["no", WON[1]])
        ]
        env = ActorEnv(steps=rng.randrange(1, 8))
        policy = ScriptedActor(answers * 2, response_budget=rng.choice([200, 5000]))
        episode = played(None, env, policy=policy, horizon=2)
        for k, turn in enumerate(episode.turns):
            attempt = turn.attempt
            sampled = [
                any(start <= i < end for start, end in attempt.spans)
                for i in range(len(attempt.response_ids))
            ]
            row = first_prompt_row(episode, k, Role.DISTILL)
            assert [role != CONTEXT for role in row.role] == sampled
            assert len(row.log_probs) == len(row.role) == len(row.turn) == len(row.rewards)
            assert [p != 0 for p in row.log_probs] == sampled
            assert row.role[-1] == Role.DISTILL
            assert attempt.info["num_tokens"] == sum(sampled)
        for row in attempt_rows(episode):
            assert [p != 0 for p in row.log_probs] == [role == Role.ATTEMPT for role in row.role]


FORKED = {
    "a later step": (1, ["ok", "win"], [call("ok"), call("win")]),
    "the first step": (0, ["win"], [call("win")]),
    "a step that is not there": (9, ["win"], [call("win")]),
}


@pytest.mark.parametrize("name", FORKED)
@pytest.mark.parametrize("tools", [True, False])
def test_a_retry_starts_before_the_step_that_feedback_criticises(name, tools):
    criticised, done, shown = FORKED[name]

    class Criticised(ActorEnv):
        def explain(self, problem, trajectory, grade, level):
            return [Note("do win", step=criticised), Note("be quick")]

    env = Criticised() if tools else Criticised(tools=())
    answers = ["ok", "bad", "lose", "win"]
    policy = ScriptedActor([call(word) if tools else word for word in answers])
    episode = played(None, env, policy=policy, provider=VerifierProvider(), horizon=2, retry="fork")
    first, second = episode.turns
    assert second.grade.correct
    assert not any(world.open for world in env.worlds)
    steps = second.attempt.trajectory.steps
    assert [action.text for step in steps for action in step.actions] == (shown if tools else done)
    row = first_prompt_row(episode, 1, Role.DISTILL)
    trained = [i for i, role in enumerate(row.role) if role != CONTEXT]
    answer = text_of(row.response_ids[i] for i in trained)
    assert answer == (call("win") if tools else "win") + "\0"
    assert len(row.role) == len(row.response_ids) == len(row.log_probs) == len(row.rewards)
    if len(done) == 1:
        assert second.attempt.prefix_ids == ()
    else:
        assert row.prompt_ids == first.attempt.prompt_ids
        prefix = second.attempt.prefix_ids
        assert first.attempt.response_ids[: len(prefix)] == prefix
        assert text_of(second.attempt.prompt_ids).endswith("Step 2: do win\nbe quick")
        assert "do win" not in text_of(row.response_ids)
        assert set(with_classes(policy, row, episode, ["think"]).role) == {CONTEXT}


def test_the_teacher_of_a_retry_from_a_step_reads_the_question_and_the_steps_before():
    policy = ScriptedActor([call("ok"), call("lose"), call("lose")])
    parts = parts_with(ActorEnv(), VerifierProvider(), horizon=2, retry="fork")
    teacher = TeacherConfig(reads="reference", turns="last", prompt="teacher/compact")
    logit = replace(parts.config.logit_distill, weight=1.0)
    parts = replace(parts, config=replace(parts.config, teacher=teacher, logit_distill=logit))
    turn = asyncio.run(play_parts(parts, policy)).turns[1]
    read, steps = text_of(turn.teacher.ids), turn.attempt.prefix_ids
    assert steps
    assert turn.teacher.ids[-len(steps) :] == steps
    assert QUESTION[-1]["content"] in read
    assert "do win" not in read, "the feedback is for the student"
    policy = replace(policy, seeds=[], prompts=[], prompt_budget=len(turn.teacher.ids) - 1)
    assert asyncio.run(play_parts(parts, policy)).turns[1].teacher is None


def test_a_state_that_cannot_be_copied_is_tried_again_from_the_beginning():
    env = ActorEnv()
    env.fails = ("fork",)
    answers = [call("ok"), call("lose"), call("win")]
    episode = played(answers, env, provider=VerifierProvider(), horizon=2, retry="fork")
    assert [len(turn.attempt.trajectory.steps) for turn in episode.turns] == [2, 1]
    assert not any(world.open for world in env.worlds)


def test_stalled_calls_do_not_hold_up_others():
    """Many states that never open, and one healthy episode, which ends long before they do."""
    release = threading.Event()

    class Stuck(ActorEnv):
        def open(self, problem, seed):
            release.wait(300)
            return super().open(problem, seed)

    async def play():
        env, healthy = Stuck(attempt_s=300.0), ActorEnv(step_s=300.0)
        stuck = [asyncio.ensure_future(first_messages(env, PROBLEM, QUESTION)) for _ in range(80)]
        await asyncio.sleep(0)
        parts = parts_with(healthy, ScriptedProvider(), horizon=1)
        episode = await play_parts(parts, ScriptedActor(WON))
        num_stuck = sum(not task.done() for task in stuck)
        release.set()
        await asyncio.gather(*stuck)
        return episode, num_stuck

    episode, num_stuck = asyncio.run(play())
    assert episode.turns[0].grade.correct
    assert num_stuck == 80
