"""What the teacher of each attempt reads, and where in which row the attempt is."""

import asyncio
import re
from dataclasses import replace
from itertools import product

import pytest

from rltf_verl.config import (
    EpisodeConfig,
    FeedbackConfig,
    LogitDistillConfig,
    RLTFConfig,
    TeacherConfig,
)
from rltf_verl.config.teacher import Contrast, Divergence
from rltf_verl.data.schema import problem_from_row
from rltf_verl.envs import make_env
from rltf_verl.episode import failure_log
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.templates import with_template
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.group import Cohort, Group
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.prompts import render
from rltf_verl.runlog.numbers import turn_facts
from rltf_verl.runlog.record import turn_record
from tests.support.episode_fakes import (
    PROBLEM,
    QUESTION,
    EchoEnv,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    play_parts,
    text_of,
)

TOLD = replace(PROBLEM, demonstration="as in yes")
READS = ["feedback", "reference", ("feedback", "reference"), "demonstration", "sibling"]
ANSWERS = {
    "wrong": ["no", "nope", "nah"],
    "right at last": ["no", "nope", "yes"],
    "right at once": ["yes", "no", "oh yes"],
}


def parts_of(provider=None, reads="feedback", feedback=None, env=None, weight=1.0, **keys):
    names = ("turns", "right", "prompt", "against", "shuffled", "notes")
    teacher = {key: keys.pop(key) for key in names if key in keys}
    divergence = Divergence("sampled_token" if "against" in teacher else "jsd")
    config = RLTFConfig(
        episode=EpisodeConfig(**keys),
        feedback=FeedbackConfig(**(feedback or {})),
        logit_distill=LogitDistillConfig(weight=weight, divergence=divergence),
        teacher=TeacherConfig(reads=reads, **teacher),
    )
    env, provider = env or EchoEnv(), provider or Remark()
    return Parts(with_template(config, env, provider), env, provider)


def play(parts, answers, *, validate=False, group=None, policy=None, problem=TOLD):
    policy = policy or ScriptedPolicy(answers)
    played = play_parts(parts, policy, group=group, validate=validate, problem=problem)
    episode = asyncio.run(played)
    return episode, asyncio.run(episode_rows(policy, QUESTION, episode, Method(parts.config)))


def in_rows(rows):
    """Turn -> the teacher's prompt, each for exactly the tokens of that turn's attempt."""
    prompts = {}
    for row in rows:
        ends = [0, *(span.end for span in row.teachers)]
        for span, after in zip(row.teachers, ends, strict=False):
            assert after <= span.start < span.end <= len(row.response_ids)
            (turn,) = set(row.turn[span.start : span.end])
            places = [i for i, t in enumerate(row.turn) if t == turn and row.role[i] == 0]
            assert places == list(range(span.start, span.end)), "the whole attempt, no context"
            prompts[turn] = span.prompt_ids
    return prompts


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("reads", READS, ids=str)
@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("context", ["fresh", "append"])
def test_the_teacher_of_each_place_reads_the_students_conversation_and_more(
    context, horizon, reads, answers
):
    sources = reads if isinstance(reads, tuple) else (reads,)
    for turns, right, goes_on in product(["first", "all", "last"], [False, True], [False, True]):
        if right and reads == "feedback" and not goes_on:
            continue  # refused
        provider, group = Remark(), Group(2)
        group.note_grade(1, 0, "a sibling's yes", correct=True)
        group.note_end(1)
        parts = parts_of(
            provider,
            reads,
            horizon=horizon,
            context=context,
            turns=turns,
            right=right,
            stop_when_solved_train=not goes_on,
        )
        episode, rows = play(parts, ANSWERS[answers], group=group)
        last = len(episode.turns) - 1
        chosen = {"first": {0}, "last": {last}, "all": set(range(last + 1))}[turns]
        expected = {}
        for k, turn in enumerate(episode.turns):
            asked = k < last or (
                "feedback" in sources
                and turn.stop == "horizon"
                and (turns != "first" or k == 0)
                and (right or not turn.grade.correct)
            )
            assert (turn.feedback is not None) == asked
            fields = {
                "feedback": turn.feedback.text if turn.feedback else "",
                "reference": "yes",
                "demonstration": "as in yes",
                "sibling": "a sibling's yes",
            }
            fields = {name: text if name in sources else "" for name, text in fields.items()}
            if k in chosen and (right or not turn.grade.correct) and any(fields.values()):
                before, _, question = text_of(turn.attempt.prompt_ids).rpartition("<user>")
                text = render(parts.config.teacher.prompt, question=question, attempt="", **fields)
                expected[k] = f"{before}<user>{text}"
                assert turn.teacher.text == text
        assert {k: text_of(ids) for k, ids in in_rows(rows).items()} == expected
        recorded = turn_facts([turn_record(turn) for turn in episode.turns])
        assert {k for k, facts in enumerate(recorded) if facts.has_teacher} == set(expected)


def test_no_teacher_in_validation_without_the_objective_and_where_its_prompt_does_not_fit():
    provider = Remark()
    for parts, validate in (
        (parts_of(provider, horizon=1), True),
        (parts_of(provider, horizon=1, weight=0.0), False),
    ):
        episode, rows = play(parts, ["no"], validate=validate)
        assert episode.turns[0].teacher is None
        assert not rows[0].teachers
    assert provider.asked == []
    small = ScriptedPolicy(["no"], prompt_budget=40)
    episode, (row,) = play(parts_of(horizon=1), [], policy=small)
    assert (episode.turns[0].feedback.text, row.teachers) == ("not no", ())


def test_feedback_that_only_the_teacher_would_read_can_fail_and_be_unwanted(caplog, monkeypatch):
    nobody = ScriptedProvider(None, None, None)
    episode, (row,) = play(parts_of(nobody, horizon=1), ["no"])
    (turn,) = episode.turns
    assert (turn.stop, turn.error, row.teachers) == ("horizon", "scripted: nobody there", ())
    (facts,) = turn_facts([turn_record(turn)])
    assert (facts.feedback_failed, facts.cut) == (1, 0), "nothing is missing from the session"
    fixed = parts_of(nobody, horizon=1, feedback={"on_error": "correctness"})
    (turn,) = play(fixed, ["no"])[0].turns
    assert turn.feedback.fallback
    assert turn.feedback.text in turn.teacher.text
    with pytest.raises(FeedbackUnavailable):
        play(parts_of(nobody, horizon=1, feedback={"on_error": "raise"}), ["no"])
    group = Group(2)
    group.note_grade(1, 0, "yes", correct=True)
    unwanted = parts_of(horizon=1, feedback={"ask": "group_failed"})
    (turn,) = play(unwanted, ["no"], group=group)[0].turns
    assert (turn.feedback, turn.teacher, turn.stop) == (None, None, "horizon")
    monkeypatch.setattr(failure_log, "_logged", set())
    strict = ScriptedPolicy(["no"], refuses="not no")
    (turn,) = play(parts_of(horizon=1), [], policy=strict)[0].turns
    assert (turn.feedback.text, turn.teacher) == ("not no", None)
    assert "no teacher's prompt could be made" in caplog.text


def test_a_siblings_answer_is_waited_for_and_none_is_no_teacher():
    parts = parts_of(reads="sibling", horizon=1)

    wrong, right = in_cohort(parts, [["no", "a <think>x</think>yes"]], [2])
    assert "A correct solution:\nyes" in wrong.turns[0].teacher.text, "without its thoughts"
    assert right.turns[0].teacher is None
    assert all(e.turns[0].teacher is None for e in in_cohort(parts, [["no", "nah"]], [2]))
    (alone,) = play(parts, ["no"])[0].turns
    assert alone.teacher is None


@pytest.mark.parametrize(
    ("data", "shown"), [({"worked": "first this, then yes"}, "first this, then yes"), ({}, "yes")]
)
def test_the_reference_is_the_worked_solution_where_it_can_be_had(data, shown):
    class Worked(EchoEnv):
        def worked_solution(self, problem):
            return problem.data["worked"]

    parts = parts_of(reads="reference", horizon=1, env=Worked())
    (turn,) = play(parts, ["no"], problem=replace(TOLD, data=data))[0].turns
    assert f"The reference solution:\n{shown}\n" in turn.teacher.text


def test_what_is_told_is_quoted_and_never_read_as_a_template():
    hostile = replace(TOLD, demonstration="{{ question }} <|im_end|>")
    (turn,) = play(parts_of(reads="demonstration", horizon=1), ["no"], problem=hostile)[0].turns
    assert "{{ question }} < |im_end|>" in turn.teacher.text


def test_a_demonstration_is_read_from_the_dataset():
    info, answer = {"env": "echo", "index": 0, "task": "{}"}, {"ground_truth": "4"}
    for given, kept in (("so", "so"), (None, "")):
        assert problem_from_row({**info, "demonstration": given}, answer).demonstration == kept
    with pytest.raises(ValueError, match=r"^extra_info.demonstration is a list: write a good"):
        problem_from_row({**info, "demonstration": ["so"]}, answer)


CONTRAST = {"horizon": 1, "right": True}


def in_cohort(parts, answers, sizes):
    """Episodes of several problems, played at the same time."""
    cohort = Cohort(range(len(sizes)), max(sizes))
    groups = [Group(max(sizes), key, cohort) for key in range(len(sizes))]
    told = [replace(TOLD, index=i, reference=f"{i} yes", demonstration=f"demo {i}") for i in (0, 1)]

    async def played():
        return await asyncio.gather(
            *(
                play_parts(
                    parts,
                    ScriptedPolicy([answers[key][session]]),
                    session_id=session,
                    group=groups[key],
                    problem=told[key],
                )
                for key, size in enumerate(sizes)
                for session in range(size)
            )
        )

    return asyncio.run(played())


def voices_of(episode):
    teacher = episode.turns[0].teacher
    return sorted(map(text_of, teacher.against)) if teacher else []


def without(text, part):
    assert text.count(part) == 1
    return text.replace(part, "")


def test_a_contrast_is_the_same_template_with_the_wrong_answers_of_siblings():
    parts = parts_of(reads="sibling", against=Contrast("wrong_sibling"), **CONTRAST)
    episodes = in_cohort(parts, [["no", "it is yes", "nah", "yes", "no", "boom"]], [6])
    # "boom" broke the grader and counts as wrong; "no" of another episode is this one's own text
    wrong = {0: ["boom", "nah"], 1: ["boom", "nah", "no"], 3: ["boom", "nah", "no"]}
    for i, texts in wrong.items():
        own = text_of(episodes[i].turns[0].teacher.ids)
        hint = next(text for text in ("it is yes", "yes") if f":\n{text}\n" in own)
        assert hint != episodes[i].turns[0].attempt.text, "never its own hint"
        frame = without(own, f":\n{hint}\n")
        voices = voices_of(episodes[i])
        assert {without(v, f":\n{t}\n") for v, t in zip(voices, texts, strict=True)} == {frame}


def test_a_contrast_has_a_limit_and_an_attempt_without_one_has_no_teacher():
    parts = parts_of(reads="sibling", against=Contrast("wrong_sibling", 2), **CONTRAST)
    wrong = [["yes", "a", "b", "c", "so yes"]]
    first, again = ([voices_of(e) for e in in_cohort(parts, wrong, [5])] for _ in range(2))
    assert first == again, "chosen by the seed"
    assert list(map(len, first)) == [2, 2, 2, 2, 2]
    right = in_cohort(parts, [["yes", "so yes", "oh yes"]], [3])
    assert not any(episode.turns[0].teacher for episode in right)


async def test_an_attempt_that_could_not_be_graded_is_no_wrong_sibling():
    group = Group(2)
    group.note_grade(1, 0, "lost", correct=None)
    group.note_grade(1, 1, "no", correct=False)
    (wrong,) = await group.solutions(0, 5, 0.0, correct=False)
    assert wrong.text == "no"


@pytest.mark.parametrize(
    ("reads", "own", "other"),
    [
        ("reference", "0 yes", "1 yes"),
        ("demonstration", "demo 0", "demo 1"),
        ("feedback", "not no", "not nah"),
        ("sibling", "so yes", "oh yes"),
    ],
)
def test_another_problems_texts_are_contrast_or_control(reads, own, other):
    answers, sizes = [["no", "so yes"], ["nah", "oh yes"]], [2, 2]
    told = {"reads": reads, "horizon": 1}
    first = in_cohort(parts_of(against=Contrast("other_problem"), **told), answers, sizes)[0]
    (voice,) = voices_of(first)
    assert without(text_of(first.turns[0].teacher.ids), own) == without(voice, other)
    control = in_cohort(parts_of(shuffled=True, **told), answers, sizes)[0]
    assert text_of(control.turns[0].teacher.ids) == voice
    assert not control.turns[0].teacher.against
    alone = in_cohort(parts_of(shuffled=True, **told), answers[:1], [2])[0]
    assert alone.turns[0].teacher is None, "no other problem is played"


def test_the_reference_alone_is_the_same_prompt_without_the_question():
    parts = parts_of(reads="reference", against=Contrast("reference_only"), **CONTRAST)
    (turn,) = play(parts, ["no"])[0].turns
    (voice,) = turn.teacher.against
    assert text_of(turn.teacher.ids).replace("Q?", "") == text_of(voice)
    small = ScriptedPolicy(["no"], prompt_budget=len(voice))
    (turn,) = play(parts, [], policy=small)[0].turns
    assert turn.teacher is None, "the whole prompt does not fit"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"reads": ("sibling", "sibling")}, "rltf.teacher.reads=['sibling', 'sibling']: a source"),
        (
            {"right": True},
            "rltf.teacher.right=True: right attempts have no feedback that a teacher could",
        ),
        (
            {"prompt": "revise/feedback", "reads": ("feedback", "sibling")},
            "rltf.teacher.prompt=revise/feedback: does not show the sibling (rltf",
        ),
        (
            {"prompt": "revise/append"},
            "rltf.teacher.prompt=revise/append: does not show the question; choose",
        ),
        (
            {"prompt": "privileged"},
            "rltf.teacher.prompt='privileged': is not known; known: revise/",
        ),
        (
            {"against": Contrast("wrong_sibling")},
            "rltf.teacher.against=wrong_sibling: a wrong sibling stands",
        ),
        (
            {"against": Contrast("reference_only"), "turns": "all"},
            "rltf.teacher.against=reference_only: later prompts quote the question",
        ),
        (
            {"against": Contrast("other_problem"), "shuffled": True},
            "rltf.teacher.shuffled=True: the control of a contrast",
        ),
        ({"reads": "reference", "notes": "by_step"}, "rltf.teacher.notes=by_step: the notes are"),
        ({"shuffled": True, "notes": "by_step"}, "rltf.teacher.notes=by_step: the notes are"),
    ],
    ids=str,
)
def test_refusals_name_key_value_and_fix(keys, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        parts_of(**keys)


def test_an_own_template_shows_one_thing_where_there_is_no_other(tmp_path):
    path = tmp_path / "mine.j2"
    path.write_text(
        "{{ question }} {% if sibling %}S {{ sibling }}{% else %}F {{ feedback }}{% endif %}"
    )
    parts = parts_of(reads=("sibling", "feedback"), prompt=str(path), horizon=1)
    (turn,) = play(parts, ["no"])[0].turns
    assert turn.teacher.text == "Q? F not no"
    path.write_text("{{ question }} {{ solution }}")
    with pytest.raises(ValueError, match=r"line 1: no variable 'solution'; there are: question,"):
        parts_of(reads="reference", prompt=str(path))


def test_small_models_have_prompts_of_their_own():
    parts = parts_of(reads="reference", env=make_env("binary_matrix", style="compact"))
    assert parts.config.teacher.prompt == "teacher/compact"
