"""Trajectories in the real trainer on the CPU: rows, masks and log-probs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.types import CONTEXT, END_REASONS, Role
from tests.e2e import recorded, runs

pytestmark = pytest.mark.e2e
STEPS, TIMEOUT, SESSIONS = 3, 900, 6
ENV = '''
from dataclasses import replace

from rltf_verl.envs.base import Limits
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.types import Note, Step


class Walk:
    """A matrix that may be answered three times; each answer is told how many there were."""

    name, tools = "walk", ()
    limits = Limits(steps=3, observation_tokens=8)

    def __init__(self):
        self._inner = BinaryMatrix(style="compact", n_min=3, n_max=3)

    def build(self, seed, num_train, num_test):
        splits = self._inner.build(seed, num_train, num_test)
        train, test = (
            tuple(replace(problem, env=self.name) for problem in problems)
            for problems in (splits.train, splits.test)
        )
        return replace(splits, train=train, test=test)

    def prompt(self, problem):
        return self._inner.prompt(problem)

    def open(self, problem, seed):
        return []

    def look(self, state):
        return None

    def step(self, state, action):
        state.append(action.text)
        return Step(str(len(state)), done=action.text.endswith("1"))

    def close(self, state):
        state.clear()

    def grade(self, problem, trajectory):
        grade = self._inner.grade(problem, trajectory.state[-1])
        return replace(grade, score=len(trajectory.state[-1]) % 5 / 5)

    def explain(self, problem, trajectory, grade, level):
        text = self._inner.explain(problem, trajectory.answer, grade, level)
        return [Note(text, step=len(trajectory.steps) - 1)]
'''
SETTINGS = [
    "data.max_response_length=40",
    "data.max_prompt_length=160",
    "data.train_batch_size=2",
    "actor_rollout_ref.rollout.n=3",
    f"{runs.MODE}sync",
    f"trainer.total_training_steps={STEPS}",
    "trainer.save_freq=1",
    "rltf.episode.horizon=2",
    "rltf.episode.stop_when_solved_train=false",
    "rltf.episode_log.ids=true",
    "rltf.distill.weight=0.5",
    "rltf.feedback_modeling.weight=0.05",
    "rltf.feedback_modeling.classes=observation",
    "rltf.logit_distill.weight=0.5",
    "rltf.logit_distill.divergence=sampled_token",
    "rltf.teacher.prompt=teacher/compact",
    "rltf.teacher.notes=by_step",
    f"actor_rollout_ref.actor.optim.lr={runs.LEARNING_RATE}",
    "actor_rollout_ref.actor.optim.optimizer=SGD",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("agents")
    (root / "walk.py").write_text(ENV)
    build_parquet(f"{root / 'walk.py'}:Walk", root / "data", 0, 24, 4)
    return root


def _settings(root: Path) -> tuple[dict[str, str], list[str]]:
    files = {"data.train_files": "train", "data.val_files": "test"}
    data = {key: str(root / "data" / f"{name}.parquet") for key, name in files.items()}
    return data, [*SETTINGS, f"rltf.env.name={root / 'walk.py'}:Walk"]


@pytest.fixture(scope="module")
def whole(root: Path) -> runs.Run:
    """A run that nothing interrupted."""
    data, settings = _settings(root)
    return runs.start(root / "whole", data, settings, env="own").finished(TIMEOUT)


def test_rows_hold_whole_trajectories_and_train_what_was_sampled(whole: runs.Run) -> None:
    assert max(len(turn["steps"]) for turn in _check_rows(whole, STEPS)) > 1


@pytest.mark.nightly
def test_a_retry_from_a_step_is_distilled_behind_the_steps_before_it(root: Path) -> None:
    data, settings = _settings(root)
    steps = "trainer.total_training_steps=1"
    settings = [*settings, "rltf.episode.retry=fork", "rltf.token_classes=action", steps]
    run = runs.start(root / "forked", data, settings, env="own").finished(TIMEOUT)
    turns = _check_rows(run, 1)
    assert any(_num_before(turn) > 0 for turn in turns)


def _check_rows(run: runs.Run, num_steps: int) -> list[Any]:
    """All turns, whose rows are those that the log's ids and steps make."""
    records = read_episodes(run.episodes)
    assert len(records) == num_steps * SESSIONS
    for step in range(1, num_steps + 1):
        played = [record for record in records if record["step"] == step]
        rows = recorded.rows(run, step)
        for role in (Role.ATTEMPT, Role.DISTILL):
            expected = sorted(row for record in played for row in _expected(record, role))
            assert sorted(_row(row) for row in rows if _role(row) == role) == expected
        for row in rows:
            trained, sampled = row["rltf_role"] != CONTEXT, _sampled(row)
            assert torch.equal(row["response_mask"].bool(), trained)
            assert not row["advantages"][~trained].any()
            if _role(row) == Role.ATTEMPT:
                gap = (row[recorded.SAMPLER] - row["old_log_probs"])[sampled]
                assert gap.abs().max() < 1e-4
    return [turn for record in records for turn in record["turns"]]


@pytest.mark.nightly
def test_rows_over_verls_own_tool_loop(tmp_path: Path) -> None:
    data = runs.build_data(tmp_path / "data")
    for path in data.values():
        rows = [{**row, "agent_name": "rltf_tools"} for row in pq.read_table(path).to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    settings = [
        f"{runs.MODE}sync",
        "rltf.episode.horizon=1",
        "rltf.feedback_modeling.weight=0.1",
        "rltf.feedback_modeling.critic=compact",
        "trainer.total_training_steps=1",
    ]
    modules = "recorder,foreign_loop"
    run = runs.start(tmp_path, data, settings, method="grpo", recorder=modules).finished(TIMEOUT)
    rows = recorded.rows(run, 1)
    for row in rows:
        gap = (row[recorded.SAMPLER] - row["old_log_probs"])[row["rltf_role"] == Role.ATTEMPT]
        assert (gap.abs() < 1e-4).all()
    roles = [row["role"] for row in rows]
    assert roles.count(Role.ATTEMPT) == 36
    (step,) = run.training_steps(1)
    wrong = round((1 - step["rltf/turn_1/acc"]) * 36)
    assert roles.count(Role.FEEDBACK_MODELING) == wrong > 0


def _num_before(turn: Any) -> int:
    """Steps that the attempt took over from the one before."""
    return sum(step["end"] == 0 for step in turn["steps"])


def test_observations_are_predicted_after_each_step_but_the_last(whole: runs.Run) -> None:
    for step, metrics in enumerate(whole.training_steps(STEPS), start=1):
        log_probs = []
        for row in (row for row in recorded.rows(whole, step) if _role(row) == Role.ATTEMPT):
            told, sampled = row["rltf_role"] == Role.FEEDBACK_MODELING, _sampled(row)
            assert told.sum() == (sampled[1:] & ~sampled[:-1]).sum(), "one digit before each answer"
            torch.testing.assert_close(row["advantages"][told], torch.full([told.sum()], 0.05))
            log_probs.append(row["old_log_probs"][told])
        perplexity = torch.cat(log_probs).mean().neg().exp()
        assert metrics["rltf/feedback_modeling/perplexity"] == pytest.approx(float(perplexity))


def test_steps_have_metrics(whole: runs.Run) -> None:
    for line in whole.metrics():
        metrics = line["data"]
        if "rltf/steps/mean" in metrics:
            assert metrics["rltf/steps/drift"] == 0
            assert metrics["rltf/session/lost_share"] == 0
            shares = [metrics[f"rltf/steps/ends/{reason}"] for reason in END_REASONS]
            assert sum(shares) == pytest.approx(1)


def _expected(record: Any, role: Role) -> list[tuple[Any, ...]]:
    """(prompt, response, trained) of the rows of one role, from the log."""
    turns = record["turns"] if role == Role.ATTEMPT else record["turns"][1:]
    first = record["turns"][0]["prompt_ids"]
    rows = []
    for turn in turns:
        trained = [False] * len(turn["response_ids"])
        for step in turn["steps"]:
            trained[step["start"] : step["end"]] = [True] * (step["end"] - step["start"])
        prompt, response = turn["prompt_ids"], turn["response_ids"]
        if role == Role.DISTILL:
            before = record["turns"][0]
            num = _num_before(turn)
            prefix = before["response_ids"][: before["steps"][num]["start"]] if num else []
            prompt, response = first, prefix + response
            trained = [False] * len(prefix) + trained
        rows.append((prompt, response, trained))
    return rows


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["prompts"].tolist(), row["responses"].tolist(), _sampled(row).tolist()


def _sampled(row: dict[str, Any]) -> torch.Tensor:
    """Which tokens are of an attempt, and no observation."""
    role: torch.Tensor = row["rltf_role"]
    return (role == Role.ATTEMPT) | (role == Role.DISTILL)


def _role(row: dict[str, Any]) -> Role:
    return Role.DISTILL if (row["rltf_role"] == Role.DISTILL).any() else Role.ATTEMPT
