"""A reward function of verl's kind as an environment."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.checks import require
from rltf_verl.adapters.startup.files import check_dataset, check_datasets, resolve_files
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.questions import read_questions
from rltf_verl.data.schema import check_parquet, first_rows, problem_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.envs.reward_function import RewardFunction
from rltf_verl.episode.parts import build_provider
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.tools.data.check import check_files
from rltf_verl.types import Grade
from tests.support.feedback_fakes import asked, turn
from tests.support.verl_rows import write_rows

FILE = """
import asyncio, pathlib, sys, time

import numpy


def compute_score(data_source, solution_str, ground_truth, extra_info, bonus=0.0):
    right = solution_str.endswith(ground_truth)
    return {"score": right + bonus, "acc": right, "pred": solution_str[-3:],
            "feedback": f"{data_source}: the year comes first"}


async def slowly(data_source, solution_str, ground_truth, extra_info):
    await asyncio.sleep(float(solution_str))
    return 1


def returns(data_source, solution_str, ground_truth, extra_info):
    return eval(solution_str, {"nan": float("nan"), "late": late, "exit": sys.exit,
                               "numpy": numpy})


def late(where):
    raise TimeoutError(where)


def asks(data_source, solution_str, ground_truth, extra_info):
    return float(extra_info["index"] == 3 and extra_info["parts"][1] == ground_truth["target"][0])


def length(data_source, solution_str, ground_truth, extra_info):
    return len(solution_str) / 10


def sleeps(data_source, solution_str, ground_truth, extra_info):
    while pathlib.Path(__file__).exists():
        time.sleep(0.1)


def strictly(data_source, solution_str, ground_truth, extra_info):
    return float(solution_str == ground_truth)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "reward.py"
    path.write_text(FILE)
    return path


def row(truth: Any = "7", **extra: Any) -> dict[str, Any]:
    """As `examples/data_preprocess/gsm8k.py` of verl makes them."""
    question = 'What is 3 + 4? Let\'s think step by step and output the final answer after "####".'
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": question}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {
            "split": "train",
            "index": 3,
            "answer": "3 and 4 is 7\n#### 7",
            "question": "What is 3 + 4?",
            **extra,
        },
    }


def test_the_scorer_of_verl_grades_its_own_dataset(tmp_path: Path) -> None:
    env = RewardFunction()
    problem = check_parquet(write_rows(tmp_path / "train.parquet", [row()]), env)
    assert (problem.env, problem.index, problem.reference) == ("reward_function", 3, "7")
    assert env.prompt(problem).endswith('after "####".')
    grades = [env.grade(problem, text) for text in ("it is 7\n#### 7", "#### 8", "\\boxed{7}")]
    assert [(g.correct, g.score, g.error) for g in grades] == [
        (True, 1.0, None),
        (False, 0.0, None),
        (False, 0.0, None),
    ]
    assert env.explain(problem, "", grades[1], "hint") == "Your previous answer is incorrect."
    assert env.worked_solution(problem).startswith("3 and 4")
    assert env.trouble_with(problem) is None


def test_its_words_are_the_feedback(file: Path) -> None:
    env = RewardFunction(f"{file}:compute_score", kwargs={"bonus": 0.25})
    problem = problem_of(env, row())
    grade = env.grade(problem, "8")
    assert (grade.correct, grade.score, grade.parsed) == (False, 0.25, "8")
    assert [env.explain(problem, "8", grade, level) for level in ("location", "hint", "full")] == [
        "Your previous answer is incorrect.",
        "Your previous answer is incorrect. openai/gsm8k: the year comes first",
        "Your previous answer is incorrect. openai/gsm8k: the year comes first The answer is 7.",
    ]
    other_key = RewardFunction(f"{file}:compute_score", feedback_key="why")
    assert "feedback" not in other_key.grade(problem, "8").details
    assert json.loads(json.dumps(dict(grade.details))) == grade.details


@pytest.mark.parametrize(
    ("returned", "correct", "score", "error"),
    [
        ("0.5", False, 0.5, None),
        ("True", True, 1.0, None),
        ("-1", False, -1.0, None),
        ("{'score': 1, 'acc': False}", False, 1.0, None),
        ("{'score': 0.2, 'acc': True, 'pred': None}", True, 0.2, None),
        ("{'score': -1, 'acc': -1}", False, -1.0, None),
        ("{'score': 0.4, 'acc': 0.4}", False, 0.4, None),
        ("{'score': 1, 'acc': numpy.bool_(True)}", True, 1.0, None),
        ("{'score': 1, 'acc': numpy.float32(1), 'pred': numpy.array([1, 2])}", True, 1.0, None),
        ("{'score': 1, 'acc': nan}", False, None, "ValueError: returned the acc nan"),
        ("nan", False, None, "ValueError: returned the score nan"),
        ("{'acc': 1}", False, None, "ValueError: returned a dict without `score`: ['acc']"),
        ("'good'", False, None, "ValueError: returned the score 'good', a str; return a number"),
        ("None", False, None, "ValueError: returned the score None; return a number"),
        (
            "(1, 'why')",
            False,
            None,
            "ValueError: returned the score \"(1, 'why')\", a tuple; return",
        ),
        ("{'score': 1, 'acc': 'no'}", False, None, "ValueError: returned the acc 'no', a str;"),
        (
            "{'score': 0, 'feedback': ['a', 'b']}",
            False,
            None,
            "ValueError: returned the feedback \"['a', 'b']\", a list; return one text",
        ),
        ("1/0", False, None, "ZeroDivisionError: division by zero (reward.py:19)"),
        ("next(iter([]))", False, None, "StopIteration"),
        ("exit(3)", False, None, "SystemExit: 3"),
        ("late('at the remote')", False, None, "TimeoutError: at the remote"),
    ],
)
def test_whatever_it_returns(
    file: Path, returned: str, correct: bool, score: float | None, error: str | None
) -> None:
    env = RewardFunction(f"{file}:returns")
    grade = env.grade(problem_of(env, row()), returned)
    assert (grade.correct, grade.score) == (correct, score)
    assert (grade.error or "").startswith("" if error is None else f"rltf.env.function: {error}")
    assert (grade.error is None) == (error is None)


async def test_coroutine_functions_run_beside_each_other(file: Path) -> None:
    env = RewardFunction(f"{file}:slowly", timeout_s=0.3)
    problem = problem_of(env, row())
    quick, slow = await asyncio.gather(env.agrade(problem, "0"), env.agrade(problem, "60"))
    assert (quick.correct, slow.correct) == (True, False)
    assert slow.error == "rltf.env.function: no score within rltf.env.timeout_s=0.3 s"


def test_functions_that_do_not_end_hold_up_neither_others_nor_the_exit(file: Path) -> None:
    stuck = RewardFunction(f"{file}:sleeps", timeout_s=0.05)
    env = RewardFunction(f"{file}:compute_score")
    problem = problem_of(env, row())

    async def ask() -> tuple[list[Grade], Grade]:
        late = await asyncio.gather(*(stuck.agrade(problem, "7") for _ in range(100)))
        return late, await env.agrade(problem, "7")

    late, other = asyncio.run(ask())  # would wait for the threads of a pool
    assert all("no score within" in str(grade.error) for grade in late)
    assert other.correct
    file.unlink()  # which ends them


def test_the_function_sees_what_the_row_holds(file: Path) -> None:
    """Truths and fields that are no text; verl's dataloader makes arrays of lists."""
    env = RewardFunction(f"{file}:asks")
    asked = row({"target": np.array(["b"])}, parts=np.array(["a", "b"]))
    problem = problem_of(env, asked)
    assert env.grade(problem, "").correct
    assert problem.reference == "b"
    assert json.loads(json.dumps(dict(problem.data))) == problem.data


@pytest.mark.parametrize(
    ("reference", "attempt", "text", "leaks"),
    [
        ("7", "8", "The answer is 7.", True),
        ("7", "8", "The answer is no even number.", False),
        ("[0, 4)", "(0, 4)", "Your domain **(0, 4)** is not right.", False),
        ("[0, 4)", "(0, 4)", "Not **(0, 4)**: **[0,4)**", True),
        ("x^3 - 6x^2 + 9", "x^3 + 6x^2 + 9", "x^3 + 6x^2 + 9 has a wrong sign.", False),
        (
            r"\frac{1+\sqrt{5}}{2}",
            r"\frac{1-\sqrt{5}}{2}",
            r"$\frac{1-\sqrt{5}}{2}$ is wrong.",
            False,
        ),
        ("red, blue, teal", "red", "The answer is red, blue and teal.", True),
        ("9:03 pm", "8 pm", "The film ends at 9:03 PM.", True),
        ("Kaliningrad", "Gdansk", "Today it is called Kaliningrad.", True),
        ("Tuesday", "Monday", "Is it Monday, Tuesday, or Friday?", False),
        ("True", "False", "True, it is old, but is it a myth?", False),
        ("9.6 m/s", "8 m/s", "The average speed is 9.6 m/s.", True),
        ("neutral", "positive", "so the right label is neutral.", True),
        ("listen", "tinsel", "Listen carefully.", False),
        ("B", "C", "The correct option is B (mitochondrion).", True),
        ("False", "True", "You should have answered False.", True),
        ("May", "June", "Change June to May.", True),
        ({"target": ["Paris", "City of Paris"]}, "Lyon", "The answer is Paris.", True),
    ],
)
def test_texts_that_the_guard_finds_and_passes(
    file: Path, reference: Any, attempt: str, text: str, leaks: bool
) -> None:
    env = RewardFunction(f"{file}:strictly")
    assert bool(find_leaks(env, problem_of(env, row(reference)), text, attempt)) is leaks


async def test_words_that_give_the_answer_away_are_withheld(file: Path) -> None:
    """The function knows the ground truth, and what it says reaches the policy."""
    env = RewardFunction(f"{file}:compute_score")
    grade = Grade(False, True, details={"feedback": "It should be 71 a day."})
    request = asked(replace(turn("8"), grade=grade), env=env, problem=problem_of(env, row("71")))
    with pytest.raises(FeedbackUnavailable, match=r"the leak guard dropped it \(answer: "):
        await build_provider(RLTFConfig().feedback).feedback(request)


def config(**block: Any) -> Any:
    return OmegaConf.create(
        {"rltf": {"env": {"name": "reward_function", "function": "a:b", "kwargs": None}}, **block}
    )


def test_the_reward_function_of_a_recipe_is_taken(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    own = {"path": "reward.py", "name": "compute_score", "reward_kwargs": {"bonus": 1}}
    made = config(reward={"custom_reward_function": own})
    resolve_files(made)
    assert made.rltf.env.function == f"{file}:compute_score"
    assert made.rltf.env.kwargs == {"bonus": 1}
    assert made.reward.custom_reward_function.path is None, "verl must not load it once more"
    made = config(custom_reward_function={"path": "pkg://mine.reward", "name": "f"})
    resolve_files(made)
    assert made.rltf.env.function == "mine.reward:f"
    made = config()
    OmegaConf.update(made, "rltf.env.function", "./reward.py:compute_score")
    resolve_files(made)
    assert made.rltf.env.function == f"{file}:compute_score"


def test_a_function_that_raises_is_to_blame_not_the_data(tmp_path: Path, file: Path) -> None:
    """Once, with the line of the user's file."""
    data = str(write_rows(tmp_path / "train.parquet", [row()]))
    made = OmegaConf.create(
        {"data": {"train_files": data, "val_files": data, "train_batch_size": 1}}
    )
    (said,) = check_datasets(made, RewardFunction(f"{file}:asks"), DryRun())
    assert str(said).startswith(f"rltf.env.function={file}:asks (custom_reward_function.path and ")
    assert "KeyError: 'parts' (reward.py:28)" in str(said)
    own = {"path": "/nope.py", "name": "f"}
    with pytest.raises(ConfigError, match=r"^custom_reward_function.path=/nope.py: no such file"):
        resolve_files(config(custom_reward_function=own))


@pytest.mark.parametrize(
    ("extra", "truth"),
    [({"task": "algebra"}, "7"), ({"env": "webshop"}, "7"), ({}, None), ({"task": "{}"}, "7")],
)
def test_rows_with_fields_of_their_own_are_taken_as_they_are(
    tmp_path: Path, file: Path, extra: dict[str, Any], truth: str | None
) -> None:
    """Also tasks without a ground truth; the function sees all of `extra_info`."""
    env = RewardFunction(f"{file}:length")
    path = write_rows(tmp_path / "train.parquet", [row(truth, **extra), row("8", **extra)])
    require(check_dataset("data.train_files", str(path), env, DryRun()))
    problem = check_parquet(path, env)
    assert {**problem.data["extra_info"], **extra} == problem.data["extra_info"]
    assert problem.reference == (truth or "")


def test_rows_without_an_index_get_one_of_their_question(tmp_path: Path) -> None:
    """Everywhere the same, whatever the row's place: a run's order is not its files'."""
    rows = [
        row() | {"extra_info": {"split": "train"}, "prompt": [{"role": "user", "content": asked}]}
        for asked in ("What is 3 + 4?", "What is 8 - 1?")
    ]
    path = write_rows(tmp_path / "train.parquet", rows)
    env = RewardFunction()
    check_parquet(path, env)
    first, second = (problem_of(env, one).index for one in first_rows(path, 2))
    assert first != second
    assert [q.problem.index for q in read_questions(path, env=env)] == [first, second]
    assert not check_files([path]).errors


@pytest.mark.parametrize(
    ("truth", "reference"),
    [
        ({"target": ["Paris", "City of Paris"]}, "Paris"),
        (["Paris", "City of Paris"], "Paris"),
        ([3, 1, 2], "[3, 1, 2]"),
        ({"inputs": ["1"], "outputs": ["2"]}, '{"inputs": ["1"], "outputs": ["2"]}'),
    ],
)
def test_the_first_of_several_accepted_texts_is_the_reference(truth: Any, reference: str) -> None:
    found = problem_of(RewardFunction(), row(truth))
    assert found.reference == reference


def test_a_file_of_verl_may_lack_what_verl_does_not_need(tmp_path: Path) -> None:
    least = {key: value for key, value in row().items() if key != "extra_info"}
    path = write_rows(tmp_path / "train.parquet", [{**least, "agent_name": "rltf_tools"}])
    assert check_parquet(path, RewardFunction()).reference == "7"
    assert not check_files([path]).errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward_model": {"style": "rule"}}, "reward_model.ground_truth is missing"),
        ({"prompt": "What?"}, "no list of chat messages: .*'role': 'user', 'content': TEXT"),
        ({"data_source": "mine"}, "data.train_files=.*data_source=mine: .*custom_reward"),
        ({"agent_name": "tool_agent"}, "agent loop tool_agent.*: drop the column agent_name"),
        (
            {**row(env="math", task="{}"), "agent_name": "rltf"},
            "made for the environment math",
        ),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = str(write_rows(tmp_path / "train.parquet", [row() | change]))
    with pytest.raises(ConfigError, match=message):
        require(check_dataset("data.train_files", path, RewardFunction(), DryRun()))
