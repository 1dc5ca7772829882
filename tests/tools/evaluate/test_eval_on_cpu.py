"""`rltf eval` against a scripted endpoint on loopback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from rltf_verl.data.questions import QuestionRow, read_questions
from rltf_verl.envs import make_env
from rltf_verl.episode.seeds import place_of, sampling_seed
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.types import Episode, Problem
from tests.support.acting import OFFICE
from tests.support.commands import ended_well, ran, refusal_of, refused, rltf
from tests.support.disks import slow_disk
from tests.support.judge.server import JudgeServer
from tests.support.log_records import line, write
from tests.support.verl_rows import verl_row, write_rows

Body = dict[str, Any]
NUM = 4
CRITIQUE = "Thinking: hm.\n\nCritique: all of it"


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first test below has one."""
    monkeypatch.setattr("rltf_verl.tools.report.evaluation.show.plot", lambda results, path: None)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_parquet(
        "binary_matrix",
        tmp_path_factory.mktemp("data"),
        seed=0,
        num_train=1,
        num_test=NUM,
        n_max=4,
        style="compact",
    ).test


@pytest.fixture
def questions(data: Path) -> list[QuestionRow]:
    return read_questions(data)


def evaluated(server: JudgeServer, data: Path, out: Path, *words: object) -> Result:
    fast = ["limits.backoff_s=0.01", "limits.max_attempts=2", "limits.breaker_after_s=60"]
    template = ["episode.revise=compact_guide", "episode.quote=none"]
    compact = [] if any("episode.revise" in str(word) for word in words) else template
    return rltf(
        "eval",
        data,
        f"endpoint.base_url={server.url}",
        "endpoint.model=m",
        *fast,
        *compact,
        "--out",
        out,
        *words,
    )


def knows(
    questions: list[QuestionRow], right: Callable[[int, Body], bool]
) -> Callable[[Body], str]:
    """Answers as `right` (row, request body) says."""

    def reply(body: Body) -> str:
        row = row_of(questions, body)
        return questions[row].problem.reference if right(row, body) else "x"

    return reply


def row_of(questions: list[QuestionRow], body: Body) -> int:
    first = body["messages"][0]["content"]
    rows = [k for k, q in enumerate(questions) if q.messages[0]["content"] in first]
    return max(rows, key=lambda k: len(questions[k].messages[0]["content"]))


def results_of(out: Path, source: str = "rltf/binary_matrix") -> Any:
    return json.loads((out / "results.json").read_text())["results"][source]


def evaluation_of(out: Path) -> Any:
    return json.loads((out / "evaluation.json").read_text())["evaluation"]


def standing(results: Any) -> list[float]:
    numbers, turns = results["numbers"], range(1, results["num_turns"] + 1)
    return [numbers[f"turn_{k}/standing"]["value"] for k in turns]


def texts(out: Path) -> dict[tuple[str, int], list[str]]:
    records = read_episodes(out / "episodes")
    by_place = {(r["uid"], r["session_id"]): [t["text"] for t in r["turns"]] for r in records}
    assert len(by_place) == len(records), "no session stands twice"
    return by_place


def test_turns_samples_seeds_and_files(
    server: JudgeServer, data: Path, tmp_path: Path, questions, monkeypatch
) -> None:
    """The first answer of row 0 is right and stays so, row 1 gets it after feedback, the others
    never.
    """
    monkeypatch.undo()  # the picture too
    first = [list(question.messages) for question in questions]
    server.reply = knows(
        questions, lambda row, body: row == 0 or (row == 1 and body["messages"] != first[1])
    )
    words = ("feedback.provider=verifier", "-n", 2, "--rounds", 2)
    ended_well(evaluated(server, data, tmp_path, *words))
    results = results_of(tmp_path)
    assert standing(results) == [1 / 4, 2 / 4, 2 / 4], "no early stop"
    assert [results["numbers"][f"turn_{k}/acc"]["cases"] for k in (1, 2, 3)] == [8, 8, 8]
    assert {
        tuple(b.get(k) for k in ("model", "temperature", "max_tokens")) for b in server.bodies
    } == {("m", 1.0, 2048)}
    seeds = {
        sampling_seed(
            0,
            validate=True,
            step=0,
            source=q.source,
            index=q.problem.index,
            session_id=s,
            place=place_of(k),
        )
        for q in questions
        for s in range(2)
        for k in range(3)
    }
    assert {body["seed"] for body in server.bodies} == seeds, "those of the trainer, whole"
    assert (tmp_path / "results.png").stat().st_size > 1000


def test_a_slow_disk_holds_up_no_question(
    server: JudgeServer, data: Path, tmp_path: Path, questions, monkeypatch
) -> None:
    disk, rows = slow_disk(monkeypatch), set[int]()

    def reply(body: Body) -> str:
        rows.add(row_of(questions, body))
        if len(rows) == NUM:
            disk.released.set()
        return "x"

    server.reply = reply
    ended_well(evaluated(server, data, tmp_path, "limits.max_concurrency=1"))
    assert len(texts(tmp_path)) == NUM


def test_self_feedback_rounds(server: JudgeServer, data: Path, tmp_path: Path, questions) -> None:
    def reply(body: Body) -> str:
        last = body["messages"][-1]["content"]
        if "critique" in last.lower() and "all of it" not in last:
            return CRITIQUE
        return questions[row_of(questions, body)].problem.reference if "all of it" in last else "x"

    server.reply = reply
    words = ("feedback.provider=policy", "episode.revise=critique", "--rounds", 1)
    ended_well(evaluated(server, data, tmp_path, *words))
    assert standing(results_of(tmp_path)) == [0, 1]


def test_a_killed_run_goes_on(server: JudgeServer, data: Path, tmp_path: Path) -> None:
    """What is in the log is not asked again; half a line of a killed writer is."""
    server.reply = lambda body: f"x{body['seed']}"
    assert evaluated(server, data, tmp_path / "whole", "-n", 3).exit_code == 0
    assert evaluated(server, data, tmp_path / "broken", "-n", 3).exit_code == 0
    (log,) = (tmp_path / "broken" / "episodes").glob("*.jsonl")
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join(lines[:5]) + b"\n" + lines[5][:40])
    server.bodies.clear()
    assert evaluated(server, data, tmp_path / "broken", "-n", 3).exit_code == 0
    assert len(server.bodies) == 2 * (NUM * 3 - 5)
    assert texts(tmp_path / "broken") == texts(tmp_path / "whole")
    assert results_of(tmp_path / "broken") == results_of(tmp_path / "whole")
    server.bodies.clear()
    assert evaluated(server, data, tmp_path / "broken", "-n", 4).exit_code == 0
    assert len(server.bodies) == 2 * NUM, "more samples are added"


def test_a_folder_is_of_one_evaluation(server: JudgeServer, data: Path, tmp_path: Path) -> None:
    assert evaluated(server, data, tmp_path, "--problems", 2).exit_code == 0
    other = evaluated(server, data, tmp_path, "endpoint.temperature=0.5", "--rounds", 2)
    differs = "(endpoint.temperature: 1.0 there, 0.5 here; --rounds: 1 there, 2 here)"
    assert (other.exit_code, differs in other.stderr) == (1, True), other.output
    moved = evaluated(server, data, tmp_path, "limits.max_concurrency=2")
    assert moved.exit_code == 0, (
        "limits are no part of what is evaluated, nor is the number of problems"
    )
    assert results_of(tmp_path)["problems"] == NUM
    rows = build_parquet("binary_matrix", tmp_path / "d", 5, 1, NUM, n_max=4, style="compact").test
    assert "another dataset" in evaluated(server, rows, tmp_path).stderr


def test_an_endpoint_that_is_silent_is_no_wrong_answer(
    server: JudgeServer, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.script = ["500"] * 4
    first = evaluated(server, data, tmp_path, "limits.max_concurrency=1")
    assert first.exit_code == 1
    assert "no result of 2 episodes" in first.stderr
    assert caplog.messages[0].startswith(f"policy: {server.url}: server_error: HTTP 500")
    assert results_of(tmp_path)["sessions"] == NUM - 2
    assert evaluated(server, data, tmp_path).exit_code == 0
    assert results_of(tmp_path)["sessions"] == NUM


def test_silence_in_a_self_critique_is_no_missing_feedback(
    server: JudgeServer, data: Path, tmp_path: Path
) -> None:
    server.script = ["ok", "500", "500"]
    words = ["feedback.provider=policy", "episode.revise=critique", "--problems", 1]
    assert evaluated(server, data, tmp_path, *words).exit_code == 1
    assert texts(tmp_path) == {}
    assert evaluated(server, data, tmp_path, *words).exit_code == 0


def test_an_episode_without_feedback_has_no_result_if_that_is_asked_for(
    server: JudgeServer, data: Path, tmp_path: Path
) -> None:
    judge = [
        "feedback.provider=judge",
        f"feedback.endpoint.base_url={server.url}",
        "feedback.endpoint.model=j",
        "feedback.limits.max_attempts=1",
        *("--problems", 1, "--rounds", 1),
    ]
    server.script = ["ok", "500"]
    ended_well(evaluated(server, data, tmp_path / "lenient", *judge))
    assert results_of(tmp_path / "lenient")["stops"] == {"feedback_unavailable": 1}
    server.script, strict = ["ok", "500"], [*judge, "feedback.on_error=raise"]
    assert evaluated(server, data, tmp_path / "strict", *strict).exit_code == 1
    ended_well(evaluated(server, data, tmp_path / "strict", *strict))
    assert results_of(tmp_path / "strict")["stops"] == {"horizon": 1}


def test_an_empty_answer_is_an_answer(server: JudgeServer, data: Path, tmp_path: Path) -> None:
    server.script = ["empty", "null_content"]
    assert (
        evaluated(server, data, tmp_path, "--rounds", 0, "limits.max_concurrency=1").exit_code == 0
    )
    assert sum(server.counts.values()) == NUM, "nothing is asked twice"
    assert sorted(len(t[0]) > 0 for t in texts(tmp_path).values()) == [False, False, True, True]


def test_cut_off_answers_are_told_apart(server: JudgeServer, data: Path, tmp_path: Path) -> None:
    server.reply = lambda body: ("0", "length" if body["seed"] % 2 else "stop")
    assert evaluated(server, data, tmp_path, "--rounds", 0, "-n", 4).exit_code == 0
    cut = [body["seed"] % 2 for body in server.bodies]
    assert results_of(tmp_path)["truncated"] == sum(cut)
    assert 0 < sum(cut) < len(cut)


def test_siblings_are_found_also_by_a_run_that_goes_on(
    server: JudgeServer, data: Path, tmp_path: Path, questions
) -> None:
    """Episode 1 quotes the solution that episode 0 had before the run was killed."""
    server.reply = knows(questions, lambda row, body: body["seed"] == server.bodies[0]["seed"])
    words = [
        "feedback.provider=docs/examples/peer.py:Peer",
        "feedback.guard.action=none",
        "feedback.acknowledge_leaks=true",
        "limits.max_concurrency=1",
        *("-n", 2, "--problems", 1),
    ]
    assert evaluated(server, data, tmp_path / "a", *words).exit_code == 0
    (log,) = (tmp_path / "a" / "episodes").glob("*.jsonl")
    whole = {r["session_id"]: r["turns"][0]["feedback"] for r in read_episodes(log.parent)}
    assert whole[1] is not None, "its sibling has solved it"
    log.write_text(
        "".join(
            line for line in log.read_text().splitlines(True) if json.loads(line)["session_id"] == 0
        )
    )
    assert evaluated(server, data, tmp_path / "a", *words).exit_code == 0
    again = {r["session_id"]: r["turns"][0]["feedback"] for r in read_episodes(log.parent)}
    assert again[1]["text"] == whole[1]["text"]


def test_the_config_of_a_run(server: JudgeServer, data: Path, tmp_path: Path) -> None:
    """Its blocks count, interpolations too; what is about learning does not; words count more."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "name: compact\ntrainer: {n: 2}\nrltf:\n  seed: 7\n  gamma: 0.5\n  episode_log: {dir:"
        " '${nowhere.at.all}'}\n  distill: {weight: 1.0}\n  env: {name: binary_matrix, style:"
        " '${name}'}\n  episode: {horizon: 9, revise: compact_guide,"
        " stop_when_solved_val: true}\n  feedback: {provider: verifier, level: verdict, guard:"
        " {action: none}}\n"
    )
    words = [
        "--config",
        config,
        "episode.revise=compact_guide",
        "episode.quote=none",
        "--problems",
        1,
    ]
    assert evaluated(server, data, tmp_path / "a", *words, "--rounds", 2).exit_code == 0
    kept = evaluation_of(tmp_path / "a")
    assert (kept["seed"], kept["episode"]["horizon"], kept["feedback"]["provider"]["options"]) == (
        7,
        3,
        {"level": "verdict"},
    )
    assert (kept["env"]["options"]["style"], kept["episode"]["stop_when_solved_val"]) == (
        "compact",
        False,
    )
    ended_well(evaluated(server, data, tmp_path / "b", *words, "feedback.provider=correctness"))
    provider = evaluation_of(tmp_path / "b")["feedback"]["provider"]
    assert provider == {"name": "correctness", "options": {}}


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["endpoint.base_url=nowhere"], "endpoint.base_url='nowhere': must be a URL"),
        (["endpoint.modle=m"], "endpoint.modle='m': it has no option 'modle'"),
        (["limits.max_concurrency=0"], "limits.max_concurrency=0"),
        (["distill.weight=1"], "rltf eval='distill': is not known"),
        (["episode.horizon=3"], "write --rounds 2 instead"),
        (["episode.horizon=x"], "write --rounds N instead"),
        (["episode=3"], "episode=3: is a block of keys; write episode.KEY=VALUE"),
        (["limits=3"], "limits=3: is a block of keys; write limits.KEY=VALUE"),
        (["feedback=judge"], "feedback=judge: is a block of keys; write feedback.provider=judge"),
        (["episode.revise=guidee"], "Did you mean 'guide'?"),
        (["rltf.feedback.provider=verifierr"], "rltf.feedback.provider='verifierr': is not known"),
        (["feedback.provider=judge"], "rltf.feedback.endpoint.base_url='???': must be a URL"),
        (["env.styl=compact"], "rltf.env.styl='compact'"),
        (["--config", "pyproject.toml"], "--config pyproject.toml: "),
        (["--config", "nope.yaml"], "--config nope.yaml: No such file or directory, seen from /"),
        (["episode.revise=./nope.j2"], "revise=./nope.j2: No such file or directory, seen from /"),
        (["--config", "hydra_configs/rltf_verl/rltf/env/math.yaml"], "no `rltf:` block"),
    ],
)
def test_what_a_user_can_fix_is_one_line(
    server: JudgeServer, data: Path, tmp_path: Path, words, fix
) -> None:
    assert fix in refusal_of(evaluated(server, data, tmp_path, *words))
    assert not server.bodies
    assert not tmp_path.joinpath("evaluation.json").exists(), (
        "the mended command may use the folder"
    )


@pytest.mark.parametrize("text", ["[]", "{}", '{"evaluation": []}', ""])
def test_a_damaged_file_of_an_evaluation_is_one_line(
    server: JudgeServer, data: Path, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(text, "utf-8")
    assert f"{path}: holds no evaluation" in refusal_of(evaluated(server, data, tmp_path))
    assert not server.bodies


def test_results_of_a_runs_last_validation_by_data_source(tmp_path: Path) -> None:
    """By the source alone, not by the environment's fields."""
    log = EpisodeLog(tmp_path / "log", "w")
    for k, (step, validate, source, answer) in enumerate(
        [
            (0, True, "", "1"),
            (2, True, "rltf/math500", "42"),
            (2, True, "rltf/math500", "42"),
            (2, True, "rltf/aime", "1"),
            (2, False, "", "1"),
            (4, False, "", "1"),
        ]
    ):
        played = Episode(Problem("math", k, {"task": f"problem {k}"}, "42"), 0, line(answer))
        place = {"step": step, "validate": validate, "uid": str(k), "source": source}
        log.append(played, question=f"q{k}", **place)
    ran("results", tmp_path / "log", "--out", tmp_path / "a")
    right = results_of(tmp_path / "a", "step 2, rltf/math500")
    wrong = results_of(tmp_path / "a", "step 2, rltf/aime")
    assert (standing(right), right["sessions"], standing(wrong)) == ([1], 2, [0])
    again = ("results", tmp_path / "log", "--out", tmp_path / "a", "--step", 0)
    assert "--overwrite" in refused(*again)
    assert results_of(tmp_path / "a", "step 2, rltf/aime") == wrong
    ran(*again, "--overwrite")
    assert standing(results_of(tmp_path / "a", "step 0")) == [0]
    assert "step 4" in refused("results", tmp_path / "log", "--out", tmp_path / "c", "--step", 4)


def test_a_dataset_and_a_reward_function_of_verl(server: JudgeServer, tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
        "    right = solution_str == ground_truth\n"
        "    return {'score': 1.0 * right, 'feedback': f'Look at {data_source}.'}\n"
    )
    data = write_rows(tmp_path / "verl.parquet", [verl_row()])
    server.reply = lambda body: "2" if "Look at mine/sums." in str(body["messages"]) else "3"
    function = f"env.function={tmp_path}/reward.py:compute_score"
    out = tmp_path / "out"
    words = ["env.name=reward_function", function, "feedback.level=hint", "episode.revise=critique"]
    assert "env.name=reward_function" in refusal_of(evaluated(server, data, out, *words[2:]))
    ended_well(evaluated(server, data, out, *words))
    assert texts(out) == {("0", 0): ["3", "2"]}
    coef = evaluation_of(out)["reward"]["format_coef"]
    assert coef == 0.0, "as rltf/env=reward_function of a training run"


def test_the_log_of_a_run_gets_no_evaluation(
    server: JudgeServer, data: Path, tmp_path: Path
) -> None:
    write(tmp_path / "episodes", [line("1", "42")])
    assert "holds the episodes of a run" in refusal_of(evaluated(server, data, tmp_path))
    assert not server.bodies


def test_an_edited_file_is_another_evaluation(server: JudgeServer, tmp_path: Path) -> None:
    """Of a grader, and of a template, of which the old folder's episodes know nothing."""
    reward, template = tmp_path / "reward.py", tmp_path / "again.j2"
    reward.write_text("def compute_score(solution_str, **_):\n    return 0.0\n")
    template.write_text("{{ question }} Not {{ attempt }}. {{ feedback }}")
    data, out = write_rows(tmp_path / "verl.parquet", [verl_row()]), tmp_path / "out"
    grader = ["env.name=reward_function", f"env.function={reward}:compute_score"]
    words = [*grader, f"episode.revise={template}"]
    ended_well(evaluated(server, data, out, *words))
    for file in (template, reward):
        before = file.read_text()
        file.write_text(f"{before}\n")
        assert f"({file} has changed)" in refusal_of(evaluated(server, data, out, *words))
        file.write_text(before)
    ended_well(evaluated(server, data, out, *words, "-n", 2))


def test_rows_of_another_environment_are_refused(
    server: JudgeServer, data: Path, tmp_path: Path
) -> None:
    function = "env.function=tests/tools/feedback/functions.py:high_or_low"
    command = evaluated(server, data, tmp_path, "env.name=reward_function", function)
    assert "was made for the environment binary_matrix" in refusal_of(command)


@pytest.mark.parametrize("fails", ["True", "solution_str == 'x'"])
def test_a_grader_that_fails_is_no_clean_result(
    server: JudgeServer, tmp_path: Path, fails: str
) -> None:
    """It is named; its answers count in no format; exit 1 if it graded nothing."""
    reward = tmp_path / "reward.py"
    reward.write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
        f"    return 1 / 0 if {fails} else 1.0\n"
    )
    server.reply = lambda body: "2" if "1 + 1?" in str(body) else "x"
    rows = [verl_row(f"{k} + 1?", extra_info={"index": k}) for k in range(NUM)]
    path, out = write_rows(tmp_path / "theirs.parquet", rows), tmp_path / "out"
    words = ["env.name=reward_function", f"env.function={reward}:compute_score", "--rounds", 0]
    result = evaluated(server, path, out, "feedback.provider=verifier", *words)
    every = fails == "True"
    cause = "rltf.env.function: ZeroDivisionError: division by zero (reward.py:2)"
    trouble = f"{NUM if every else NUM - 1} of {NUM} answers were not graded, and count as wrong"
    assert f"{trouble}: {cause}" in result.stdout
    results = results_of(out, "mine/sums")
    assert results["numbers"]["turn_1/format"]["value"] == (None if every else 1.0)
    assert standing(results) == [0.0 if every else 1 / NUM]
    assert result.exit_code == int(every), result.output
    assert (trouble in result.stderr) == every
    assert f"{trouble}: {cause}" in ran("probe", out).stderr


def test_trajectories_are_played_with_the_endpoints_own_calls(
    server: JudgeServer, tmp_path: Path
) -> None:
    """The solution after feedback; before, a call that is none and one with broken arguments."""
    env = make_env(OFFICE)
    data = build_parquet(OFFICE, tmp_path / "data", seed=0, num_train=0, num_test=2).test
    problems = [question.problem for question in read_questions(data)]

    def reply(body: Body) -> tuple[Any, ...]:
        told = body["messages"]
        steps = sum(message["role"] == "assistant" for message in told)
        if "[step 1]" not in told[0]["content"]:  # of the first attempt, which a revision quotes
            broken = {"name": "close_ticket", "arguments": "{"}
            script: list[tuple[Any, ...]] = [("<tool_call>{", "stop"), (None, "stop", [broken])]
        else:
            problem = next(p for p in problems if env.prompt(p) in told[0]["content"])
            actions = env.solution(problem)
            calls = [{"name": a.tool, "arguments": json.dumps(a.arguments)} for a in actions]
            script = [(None, "tool_calls", calls)]
        return script[steps] if steps < len(script) else ("Done.", "stop")

    server.reply = reply
    words = ("episode.revise=note", "episode.quote=all", "feedback.provider=verifier")
    ended_well(evaluated(server, data, tmp_path / "out", *words))
    (results,) = json.loads((tmp_path / "out/results.json").read_text())["results"].values()
    assert standing(results) == [0, 1]
    assert results["ends"] == {"answered": [4, 2.5]}
    for body in server.bodies:
        assert body["tools"] == list(env.tools)
        called = [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())]
        answered = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
        assert called == answered
    turns = [turn for r in read_episodes(tmp_path / "out/episodes") for turn in r["turns"]]
    kinds = [[result["kind"] for step in t["steps"] for result in step["results"]] for t in turns]
    assert ["format", "format"] in kinds
    assert {t["num_tokens"] for t in turns} == {40, 60}, "as the endpoint counts"
