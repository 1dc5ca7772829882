"""What `rltf plan` says about a run, of one turn or of acting."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig
from rich.console import Console

from rltf_verl.adapters.startup.checks import start_findings
from rltf_verl.adapters.startup.machine import PRECISIONS
from rltf_verl.data.schema import row_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.tools.plan.build import Plan, make_plan
from rltf_verl.tools.plan.inputs import inspect_run
from rltf_verl.tools.report.terminal.plan import show_plan
from rltf_verl.types import Problem
from tests.support.acting import OFFICE
from tests.support.commands import ran, rltf
from tests.support.plan_runs import GOOD, GROUPS, pretend, rows
from tests.support.verl_rows import write_rows

JUDGE = (
    "rltf/feedback=judge",
    "rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1",
    "rltf.feedback.endpoint.model=m",
    "rltf.feedback.price={prompt: 10, completion: 1000}",
)
UTILIZATION = "actor_rollout_ref.rollout.gpu_memory_utilization"
Run = Callable[..., DictConfig]


def planned(config: DictConfig, attempt: str | None = None) -> Plan:
    return make_plan(inspect_run(config), 2, attempt)


def shown_of(plan: dict[str, Any], width: int, whole: bool = False) -> str:
    out = io.StringIO()
    show_plan(plan, Console(file=out, width=width), whole=whole)
    return out.getvalue()


def test_what_a_gpu_takes_by_part_and_a_card_that_is_too_small(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "cuda")  # of which there is none
    config = run("rltf/hardware=gpu")
    plan = make_plan(inspect_run(config, card=80), 1)
    assert not plan.refusals
    assert [line for line in plan.warnings if "no accelerator" in line]
    assert len(plan.memory) == 3
    assert len(planned(config).memory) == 2  # no card, no share of it
    wrong = run("rltf/hardware=gpu", f"{UTILIZATION}=many", "trainer.nnodes=two")
    found = {finding.key for finding in start_findings(wrong, DryRun(), card=80)}
    assert {UTILIZATION, "trainer.nnodes"} <= found
    small = make_plan(inspect_run(config, card=2), 1)  # no GPU has confirmed it: a warning
    assert any("of 2 GB" in line for line in small.warnings)
    assert not any("of 2 GB" in line for line in small.refusals)


FRESH = "rltf.episode.context=fresh"


def test_a_problem_is_played_as_the_run_will_play_it(run: Run) -> None:
    plan = planned(run(FRESH))
    problem, _ = plan.problems
    first, second = problem.turns
    asks = 'What is 0 + 1? Let\'s think step by step and output the final answer after "####".'
    assert first["prompt"] == f"<user>{asks}<assistant>"
    assert (first["text"], first["grade"]["correct"], first["reward"]) == ("#### 0", False, 0.0)
    assert first["feedback"]["text"] == "Your previous answer is incorrect. 0 was read."
    assert second["prompt"].startswith(f"<user>Question: {asks}")
    assert "Your Previous Solution:\n#### 0\n" in second["prompt"]
    assert first["feedback"]["text"] in second["prompt"]
    assert (second["text"], second["stop"]) == ("#### 1", "solved")
    rules = [part["advantage"] for row in problem.rows for part in row["parts"]]
    assert [rule[:3] for rule in rules] == ["1.0", "0.1", "1.0"], "the weights of the objectives"


def test_the_size_of_a_step_and_of_the_run(run: Run) -> None:
    plan = planned(
        run(FRESH, "rltf.updates_per_batch=2", "trainer.total_epochs=3", "rltf.refill_rounds=1")
    )
    assert plan.run["experimental"] == "rltf.refill_rounds"
    step = {
        "episodes": 4 * 8,
        "most_answers": 4 * 8 * 2,
        "fewest_rows": 4 * 8,
        "most_rows": 4 * 8 * 3,
        "most_sampled_tokens": 4 * 8 * 2 * 2048,
        "most_judge_calls": 0,
        "optimiser_updates": 2,
    }
    assert plan.step.items() >= step.items()
    schedule = {
        "steps": 9,
        "steps_per_epoch": 3,
        "validations": 3,  # before, after step 5, at the end
        "metrics_file": Path("rltf/rltf.jsonl"),
    }
    assert plan.schedule.items() >= schedule.items()
    taken = planned(run("data.train_max_samples=8", "data.val_max_samples=3"))
    assert (taken.run["train_rows"], taken.run["val_rows"]) == (8, 3)
    assert taken.schedule["steps_per_epoch"] == 2


@pytest.mark.parametrize(
    ("words", "update", "rollout"),
    [
        ((), "fp32", "float32"),
        (("rltf/hardware=gpu",), "bf16", "bfloat16"),
        (("rltf/hardware=gpu_small",), "bf16", "bfloat16"),
        (("rltf/hardware=gpu_small_fp16",), "fp16", "float16"),
        (("rltf/hardware=gpu_small", f"{PRECISIONS[0]}=fp32"), "fp32", "bfloat16"),
    ],
)
def test_the_precision_is_told(run: Run, words: tuple[str, ...], update: str, rollout: str) -> None:
    precision = planned(run(*words)).run["precision"]
    assert precision == f"{update} in the update, {rollout} in the rollout"


def test_a_judge_is_not_asked_and_what_it_would_be_sent_is_shown(run: Run) -> None:
    plan = planned(run("rltf/method=fm", *JUDGE))
    problem = plan.problems[0]
    (sent,), (critic,) = problem.judge_prompts, problem.critic_prompts
    assert "#### 0" in sent
    assert "(what the judge writes about this attempt)" in problem.turns[1]["prompt"]
    assert "A student's solution:\n#### 0" in critic
    assert plan.step["most_judge_calls"] == 32
    price = 32 * (len(sent) * 10 + 1024 * 1000) / 1e6
    assert plan.step["most_judge_price"] == pytest.approx(price, rel=0.01)


def test_without_a_second_answer_what_the_teacher_reads_is_shown(run: Run) -> None:
    reads = "rltf.teacher.reads=[reference,sibling,feedback]"
    fits = ("data.max_prompt_length=1024", "data.max_response_length=1024")
    plan = planned(run("rltf/method=teacher/opsd", reads, *fits))
    assert plan.refusals == []
    (turn,) = plan.problems[0].turns
    assert (turn["grade"]["correct"], turn["stop"]) == (False, "horizon")
    sibling = "A correct solution:\n#### 1"
    parts = [turn["prompt"].removesuffix("<assistant>"), "0 + 1 = 1\n", sibling]
    places = [turn["teacher"]["prompt"].index(part) for part in [*parts, turn["feedback"]["text"]]]
    assert places == sorted(places)
    assert "teacher reads  <user>" in shown_of(plan, 200, whole=True)
    (refusal,) = planned(run("rltf/method=teacher/sdft", *fits)).refusals
    assert refusal.startswith("rltf.teacher.reads=demonstration: ")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("rlsd", ()),
        ("rlcsd", ()),
        ("rlcsd", ("rltf.teacher.against=other_problem",)),
        ("purified_opsd", ()),
        ("opsd", ("rltf.teacher.shuffled=true",)),
    ],
)
def test_each_kind_of_teacher_has_a_prompt(run: Run, method: str, words: tuple[str, ...]) -> None:
    fits = ("data.max_prompt_length=1024", "data.max_response_length=1024")
    plan = planned(run(f"rltf/method=teacher/{method}", *words, *fits))
    assert plan.problems[0].turns[0]["teacher"]


def test_a_guards_judge_is_counted_and_lets_pass(run: Run) -> None:
    guard = "{base_url: 'http://127.0.0.1:9/v1', model: m}"
    plan = planned(run(*JUDGE, f"+rltf.feedback.guard.judge={{endpoint: {guard}}}"))
    assert len(plan.problems[0].turns) == 2
    assert plan.step["most_judge_calls"] == 64


def test_a_checkpoint_that_the_run_goes_on_from_is_named(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("3")
    (tmp_path / "global_step_3" / "actor").mkdir(parents=True)
    plan = planned(run(f"trainer.default_local_dir={tmp_path}"))
    assert plan.schedule["resumes"] == tmp_path / "global_step_3"
    assert "Found checkpoint" not in capsys.readouterr().out  # of verl; --json is JSON alone


def test_a_grader_that_reads_an_answer_without_a_mark_asks_for_none(run: Run, home: Path) -> None:
    write_rows(home / "plain.parquet", rows(asks="Be brief."))
    plan = planned(run("data.train_files=plain.parquet"))
    assert plan.problems[0].right == {"text": "1", "form": "the answer alone"}
    assert plan.warnings == []


def test_an_attempt_of_ones_own(run: Run) -> None:
    (right, wrong) = planned(run(), "It is #### 1").problems
    assert [turn["stop"] for turn in right.turns] == ["solved"]
    assert not wrong.turns[0]["grade"]["correct"]


def test_a_correction_is_shown_with_the_answer_that_was_corrected(run: Run, home: Path) -> None:
    task = {"id": "a", "attempt": "20 F", "correction": "No, in Celsius.", "rule": "a word"}
    row = row_of(Problem("corrections", 0, task, ""), "How cold is it?", "train")
    data = write_rows(home / "corrections.parquet", [row])
    words = ("custom_reward_function.path=null", "data.train_batch_size=1", "~rltf.env")
    plan = planned(run(*words, "+rltf.env.name=corrections", f"data.train_files={data}"))
    first, second = plan.problems[0].turns
    assert (first["text"], first["feedback"]["text"]) == ("20 F", "No, in Celsius.")
    assert "No, in Celsius." in second["prompt"]
    assert [line for line in plan.warnings if line.startswith("validations: ")]
    assert len([line for line in plan.warnings if "picked by a rule" in line]) == 1


def test_it_fits_80_columns_and_ends_with_what_to_change(run: Run) -> None:
    lines = shown_of(planned(run("trainer.save_freq=-1")), 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if "trainer.save_freq=-1" in line] == ["warning"]


@pytest.mark.usefixtures("run")
def test_the_command_takes_the_runs_own_command_line_and_writes_nothing(home: Path) -> None:
    before = sorted(home.rglob("*"))
    command = ["plan", "python", "-m", "verl.trainer.main_ppo", "--config-name=rltf"]
    plan = json.loads(ran(*command, *GROUPS, *GOOD, "--json", "--problems=1").stdout)
    assert (len(plan["problems"]), plan["run"]["name"]) == (1, "rltf_sd")
    bad = rltf(*command, *GROUPS, *GOOD, "rltf.distill.weight=-1")
    assert (bad.exit_code, "would be refused for 1 thing" in bad.stdout) == (1, True)
    assert sorted(home.rglob("*")) == before


MATRIX = ("rltf/env=binary_matrix", "custom_reward_function.path=null")


def test_a_wrong_answer_has_the_right_form(run: Run) -> None:
    files = ("data.train_files=matrix/train.parquet", "data.val_files=matrix/test.parquet")
    style = ("rltf.env.style=compact", "+rltf.env.n_min=3", "+rltf.env.n_max=3")
    plan = planned(run(*MATRIX, *files, *style))
    for problem in plan.problems:
        first = problem.turns[0]
        assert not first["grade"]["correct"]
        assert len(first["grade"]["parsed"]) == len(problem.reference)


ROOT = Path(__file__).parents[3]
GAME = """
from pathlib import Path

from rltf_verl.envs.base import Limits, Splits
from rltf_verl.types import Action, Grade, Note, Problem, Step


class Game:
    name = "game"
    tools = ()
    limits = Limits(steps=4)

    def build(self, seed, num_train, num_test):
        problems = [Problem("game", i, {}, "up") for i in range(num_train + num_test)]
        return Splits(tuple(problems[:num_train]), tuple(problems[num_train:]))

    def prompt(self, problem):
        return "Which way?"

    def open(self, problem, seed):
        return []

    def look(self, state):
        return "You see a stair."

    def step(self, state, action):
        state.append(action.text)
        return Step("You moved.", done=len(state) == 3)

    def close(self, state):
        pass

    def grade(self, problem, trajectory):
        if not trajectory.state:
            raise ZeroDivisionError("nothing was done")
        return Grade("up" in trajectory.state, format_ok=True)

    def explain(self, problem, trajectory, grade, level):
        return [Note("Go up.", 0)]
"""
SOLVED = """

class Solved(Game):
    def solution(self, problem):
        return [Action("left"), Action("left"), Action("up")]
"""


def steps_of(turn: dict[str, Any]) -> list[tuple[str | None, list[str]]]:
    """The tool of each step's call and what came back."""
    return [
        (
            step["actions"][0]["tool"] if step["actions"] else None,
            [result["observation"] for result in step["results"]],
        )
        for step in turn["steps"]
    ]


def test_the_solution_is_played_without_its_last_step_and_then_whole(plan_of) -> None:
    plan = plan_of(OFFICE, "+rltf.env.max_orders=1")
    for problem in plan.problems:
        first, second = problem.turns
        num_calls = len(problem.reference.splitlines())
        played, whole = ([tool for tool, _ in steps_of(turn)] for turn in problem.turns)
        assert whole[-1] is None
        assert len(whole) == num_calls + 1
        assert played == [*whole[: max(num_calls - 1, 1)], None]
        assert first["end"] == "answered"
        assert not first["grade"]["correct"]
        assert second["grade"]["correct"]
        assert first["feedback"]["text"] in second["prompt"]
    assert "call     read(name=" in shown_of(plan, 100)


def test_without_a_solution_the_first_tool_is_called_as_its_schema_says(plan_of) -> None:
    plan = plan_of(f"{ROOT}/docs/examples/lookup.py:Lookup")
    first = plan.problems[0].turns[0]
    (called, (seen,)), answered = steps_of(first)
    assert first["steps"][0]["actions"][0]["arguments"] == {"department": "text"}
    assert (called, answered) == ("look", (None, []))
    assert "no such department" in seen
    assert [note["step"] for note in first["feedback"]["notes"]] == [1]


def test_a_game_without_tools_is_looked_at_and_played_in_texts(plan_of, tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(GAME + SOLVED)
    first, second = plan_of(f"{tmp_path}/game.py:Solved").problems[0].turns
    assert "You see a stair." in first["prompt"]
    assert [step["text"] for step in first["steps"]] == ["left", "left", "I am done."]
    assert [step["text"] for step in second["steps"]] == ["left", "left", "up"]
    plain = plan_of(f"{tmp_path}/game.py:Game", attempt="down")
    assert plain.problems[0].turns[0]["steps"][0]["text"] == "down"
