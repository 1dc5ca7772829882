"""Training on recorded corrections: the recorded answer is the first attempt and trains nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rltf_verl.adapters.startup import stamp
from rltf_verl.adapters.startup.checks import checked_parts, warnings_of
from rltf_verl.config import RLTFConfig
from rltf_verl.data.schema import row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.envs.corrections import Corrections
from rltf_verl.episode.parts import Parts
from rltf_verl.feedback import make_provider
from rltf_verl.judge.runtime import runtime_of
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.runlog.record import episode_record
from rltf_verl.types import CONTEXT, Grade, Problem, Role
from tests.support.configs import composed
from tests.support.episode_fakes import (
    QUESTION,
    ScriptedPolicy,
    parts_with,
    play_parts,
    stops,
    text_of,
)
from tests.support.judge.calls import QUICK
from tests.support.judge.server import answering
from tests.support.verl_rows import write_rows

PROBLEM = Problem(
    "corrections", 0, {"id": "a1", "attempt": "20 F", "correction": "In Celsius, please."}, ""
)
OTHER = Problem(
    "corrections", 1, {"id": "b2", "attempt": "Hi", "correction": "Say good morning."}, ""
)
RUN = {
    "env": {"name": "corrections"},
    "feedback": {"provider": "verifier", "level": "hint"},
    "episode": {"horizon": 2},
}
BLOCKS = {
    "sd": {"distill": {"weight": 1.0, "baseline": "none"}},
    "sft": {"imitate": {"weight": 1.0}},
    "fm": {"feedback_modeling": {"weight": 1.0, "form": "rows"}},
}


class Celsius(Corrections):
    """The grade that the recipe's validation has."""

    name = "celsius"

    def grade(self, problem: Problem, text: str) -> Grade:
        return Grade(text.strip() == problem.reference, format_ok=bool(text.strip()))


def parts(env: Env | None = None, **episode) -> Parts:
    return parts_with(env or Corrections(), make_provider("verifier"), **{"horizon": 2, **episode})


async def rows_of(played, **blocks):
    method = Method(RLTFConfig.from_mapping({**RUN, **blocks}))
    return await episode_rows(ScriptedPolicy([]), QUESTION, played, method)


async def test_the_recorded_answer_is_the_first_attempt_and_the_words_are_the_feedback():
    policy = ScriptedPolicy(["-7 C"])
    episode = await play_parts(parts(), policy, problem=PROBLEM)
    first, second = episode.turns
    assert (first.attempt.text, first.reward, first.grade.correct) == ("20 F", 0.0, False)
    assert first.feedback.text == "In Celsius, please."
    assert text_of(first.attempt.response_ids) == "20 F\0"
    assert (second.attempt.text, second.reward, stops(episode)) == ("-7 C", 1.0, [None, "solved"])
    # Only the second answer is sampled, after a prompt that shows the recorded one.
    assert len(policy.prompts) == 1
    assert "20 F" in policy.prompts[0]
    assert "In Celsius, please." in policy.prompts[0]
    tokens = [turn["num_tokens"] for turn in episode_record(episode)["turns"]]
    assert tokens == [0, len("-7 C") + 1], "no token of it was sampled"


@pytest.mark.parametrize(
    "prompts",
    [{"context": "fresh", "revise": "compact"}, {"context": "append", "revise": "plain_append"}],
)
@pytest.mark.parametrize("method", BLOCKS)
async def test_no_token_of_the_recorded_answer_trains(method: str, prompts: dict[str, str]):
    played = await play_parts(parts(**prompts), ScriptedPolicy(["-7 C"]), problem=PROBLEM)
    rows = await rows_of(played, **BLOCKS[method])
    trained = {
        Role(role): "".join(
            chr(i) for i, r in zip(row.response_ids, row.role, strict=True) if r == role
        )
        for row in rows
        for role in set(row.role) - {CONTEXT}
    }
    own = {"sd": Role.DISTILL, "sft": Role.IMITATE, "fm": Role.FEEDBACK_MODELING}[method]
    taught = "In Celsius, please.\0" if method == "fm" else "-7 C\0"
    assert trained == {Role.ATTEMPT: "-7 C\0", own: taught}
    behind_x0 = [row for row in rows if own in row.role and method != "fm"]
    assert all(row.prompt_ids == played.turns[0].attempt.prompt_ids for row in behind_x0)
    # A row that trains nothing is left out.
    assert all(set(row.role) != {CONTEXT} for row in rows)


async def test_an_answer_that_is_too_long_leaves_its_episode_out():
    policy = ScriptedPolicy(["-7 C"], answer_budget=len("20 F"))
    played = await play_parts(parts(), policy, problem=PROBLEM)
    assert stops(played) == ["ungraded"]
    assert "data.max_response_length" in played.turns[0].error
    assert policy.prompts == [], "no second answer is sampled"
    (row,) = await rows_of(played, **BLOCKS["sd"])
    assert set(row.role) == {CONTEXT}


@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        (" 20 F\n", []),
        ("  ", []),
        ("", []),
        ("<think>\nhm\n</think>\n\n20 F", []),
        ("<think>\nhm\n</think>\n", []),
        ("-7", [0]),
    ],
)
async def test_a_second_answer_that_says_the_same_or_nothing_or_half_is_not_accepted(answer, cut):
    played = await play_parts(parts(), ScriptedPolicy([answer], cut=cut), problem=PROBLEM)
    assert [turn.grade.correct for turn in played.turns] == [False, False]


async def test_a_validation_samples_first_answers_and_has_no_verdict_of_its_own():
    played = await play_parts(parts(), ScriptedPolicy(["5 C"]), problem=PROBLEM, validate=True)
    assert [turn.attempt.text for turn in played.turns] == ["5 C"]
    assert (stops(played), "grade" in played.turns[0].error) == (["ungraded"], True)


async def test_a_subclass_grades_validations():
    problem = Problem("corrections", 0, PROBLEM.data, "5 C")
    policy = ScriptedPolicy(["4 C", "5 C"])
    played = await play_parts(parts(Celsius()), policy, problem=problem, validate=True)
    assert [turn.grade.correct for turn in played.turns] == [False, True]
    said = played.turns[0].feedback.text
    assert said.index("20 F") < said.index("In Celsius, please."), "the words are about that answer"


async def test_a_problem_without_a_record_is_played_as_any_other():
    class Some(Celsius):
        def recorded(self, problem):
            if problem.index == 2:
                raise ValueError("no such record")

    for index in (1, 2):
        problem = Problem("corrections", index, PROBLEM.data, "5 C")
        played = await play_parts(parts(Some()), ScriptedPolicy(["4 C", "5 C"]), problem=problem)
        assert [turn.attempt.text for turn in played.turns] == ["4 C", "5 C"]


async def test_a_teacher_reads_the_correction_of_the_policys_own_answer():
    config = RLTFConfig.from_mapping(
        {
            **RUN,
            "episode": {"horizon": 1},
            "logit_distill": {"weight": 1.0},
            "teacher": {"reads": ["feedback"], "prompt": "teacher/privileged"},
        }
    )
    playing = Parts(config, Corrections(), make_provider("verifier"))
    (turn,) = (await play_parts(playing, ScriptedPolicy(["5 F"]), problem=PROBLEM)).turns
    assert (turn.attempt.text, turn.attempt.recorded) == ("5 F", False)
    assert "In Celsius, please." in turn.teacher.text
    assert turn.teacher.ids != turn.attempt.prompt_ids


JUDGED = Problem("corrections", 0, {**PROBLEM.data, "question": "How cold is it?"}, "")


async def judged(answer: str, *replies: str, validate: bool = False, **limits):
    """An episode, and what the judge was sent."""
    async with answering(*replies) as server:
        if not replies:
            await server.stop()
        endpoint = {"base_url": server.url, "model": "m"}
        env = make_env("corrections", judge={"endpoint": endpoint, "limits": {**QUICK, **limits}})
        policy = ScriptedPolicy([answer, "0 C"])
        played = await play_parts(parts(env), policy, problem=JUDGED, validate=validate)
        await runtime_of(env.judges[0].settings).aclose()
    return played, [body["messages"][0]["content"] for body in server.bodies]


@pytest.mark.parametrize("verdict", ["yes", "no"])
async def test_a_second_answer_is_accepted_if_the_judge_says_that_it_follows(verdict: str):
    played, (prompt,) = await judged("<think>-7?</think>-7 C", f"Verdict: {verdict}")
    assert [turn.grade.correct for turn in played.turns] == [False, verdict == "yes"]
    for text in ("How cold is it?", "20 F", "In Celsius, please.", "-7 C"):
        assert f"\n{text}\n" in prompt
    assert "think" not in prompt


@pytest.mark.parametrize("answer", [" 20 F\n", "  "])
async def test_no_judge_is_asked_about_an_answer_that_says_the_same_or_nothing(answer: str):
    played, prompts = await judged(answer, "Verdict: yes")
    assert ([turn.grade.correct for turn in played.turns], prompts) == ([False, False], [])


async def test_an_answer_that_the_judge_has_not_read_is_neither_right_nor_wrong():
    for replies in ([], ["Hm.", "No verdict can be given."]):
        played, _ = await judged("-7 C", *replies, max_attempts=1)
        assert stops(played) == [None, "ungraded"]
        assert "rltf.env.judge" in played.turns[1].error
        assert not played.turns[1].grade.correct


async def test_the_judge_says_in_validation_if_a_first_answer_needs_the_correction():
    played, prompts = await judged("5 F", "Verdict: no", "Verdict: yes", validate=True)
    assert [turn.attempt.text for turn in played.turns] == ["5 F", "0 C"]
    assert [turn.grade.correct for turn in played.turns] == [False, True]
    assert "20 F" in prompts[0]


JUDGE = {"endpoint": {"base_url": "http://h/v1", "model": "m"}}


@pytest.mark.parametrize(
    ("judge", "problem", "lacks"),
    [
        (None, PROBLEM, "None"),
        (None, Problem("math", 0, {"attempt": "1"}, ""), "correction"),
        (JUDGE, PROBLEM, "question"),
        (JUDGE, JUDGED, "None"),
    ],
)
def test_what_a_row_lacks(judge, problem, lacks):
    assert lacks in str(make_env("corrections", judge=judge).trouble_with(problem))


def test_an_empty_answer_is_wrong_before_any_run():
    assert not Corrections().grade(PROBLEM, " \n").correct


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    rows = [row_of(problem, "How warm?", "train") for problem in (PROBLEM, OTHER)]
    folder = tmp_path_factory.mktemp("data")
    return {name: write_rows(folder / f"{name}.parquet", rows) for name in ("train", "val")}


def composed_run(files: dict[str, Path], folder: Path, *words: str):
    return composed(
        "rltf",
        "rltf/env=corrections",
        "rltf/hardware=cpu",
        "actor_rollout_ref.model.path=/model",
        f"data.train_files={files['train']}",
        f"data.val_files={files['val']}",
        f"trainer.default_local_dir={folder}",
        *words,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["rltf/method=sd", "rltf.distill.baseline=none"],
        ["rltf/method=sd", "rltf/feedback=shuffled"],
        ["rltf/method=sd", "rltf.env.judge={endpoint: {base_url: 'http://h/v1', model: m}}"],
        ["rltf/method=sft"],
        ["rltf/method=raft"],
        ["rltf/method=fm"],
        ["rltf/method=teacher/sdpo", "rltf.teacher.reads=[feedback]", "rltf.teacher.right=false"],
    ],
    ids=" ".join,
)
def test_a_run_on_corrections_composes(files, tmp_path, words):
    assert checked_parts(composed_run(files, tmp_path, *words)).config.env.name == "corrections"


@pytest.mark.parametrize(("rules", "num"), [(["no, …", "judge"], 1), (["corrected: true"] * 2, 0)])
def test_a_run_names_corrections_that_were_not_checked_once(tmp_path, rules, num):
    rows = [
        row_of(replace(one, data={**one.data, "rule": rule}), "How warm?", "train")
        for one, rule in zip((PROBLEM, OTHER), rules, strict=True)
    ]
    path = write_rows(tmp_path / "picked.parquet", rows)
    config = composed_run({"train": path, "val": path}, tmp_path, "rltf/method=sd")
    found = warnings_of(config, Method(checked_parts(config).config))
    assert sum("were picked by" in one.why for one in found) == num


def test_a_checkpoint_names_the_corrections_that_it_was_trained_on(files, tmp_path):
    config = composed_run(files, tmp_path, "rltf/method=sd")
    rltf = checked_parts(config).config
    stamp.write_stamp(config, rltf, 1)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("1")
    (tmp_path / "global_step_1" / "actor").mkdir()
    written = json.loads((tmp_path / "global_step_1" / stamp.STAMP).read_text())
    assert written[stamp.IDS] == ["a1", "b2"]
    assert not list(stamp.check_resume(config, rltf))
