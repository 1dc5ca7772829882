"""The study's loop: it runs, it resumes, and its update is the plain gradient."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from benchmarks.study import settings
from benchmarks.study.learner import Learner
from benchmarks.study.policy import PHASES
from benchmarks.study.report import value_at, write_report
from benchmarks.study.runs import result_file, run_all
from benchmarks.study.settings import QUICK, Run, problems
from benchmarks.study.train import Trainer
from rltf_verl.algos.targets import compute_targets
from rltf_verl.config import ConfigError
from rltf_verl.types import Role

METHODS = {"full": ("grpo_single", "sd_fm"), "correctness": ("sft",)}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder with three finished runs of two steps."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(settings, "METHODS", METHODS)
        patch.setattr(settings, "VARIANTS", {})
        run_all(QUICK, folder, pool, [replace(PHASES[1], steps=2)])
        before = {p: p.stat().st_mtime_ns for p in folder.rglob("*.json")}
        run_all(QUICK, folder, pool, [replace(PHASES[1], steps=2)])
        assert {p: p.stat().st_mtime_ns for p in folder.rglob("*.json")} == before, "finished runs are skipped"
    return folder


def test_a_quick_study_leaves_curves_a_table_and_a_picture(out, capsys):
    curve = json.loads(result_file(out, Run("full", "sd_fm", 0)).read_text())["curve"]
    assert [point["step"] for point in curve] == [0, 1, 2]
    assert curve[-1]["sessions"] == 8
    assert curve[-1]["trained_tokens"] > curve[-1]["sampled_tokens"], "distilled and modelled tokens are trained too"
    write_report(out, out / "results.json", out / "study.png")
    assert "| full | sd_fm |" in capsys.readouterr().out
    assert (out / "study.png").stat().st_size > 10_000
    assert set(json.loads((out / "results.json").read_text())["arms"]) == {
        "full-grpo_single", "full-sd_fm", "correctness-sft",
    }  # fmt: skip


def test_the_update_is_the_sum_of_the_roles_gradients(out, monkeypatch):
    """Row by row from the definition; SGD with learning rate 1 makes the step the gradient."""
    config = Run("full", "sd_fm", 0).config(replace(QUICK, problems=4))
    trainer, seen = Trainer(config, out / "policy", problems().train, 1), {}
    learner = trainer.learner
    parameters = list(learner.model.parameters())
    learner.optimizer, learner.clip_grad = torch.optim.SGD(parameters, lr=1.0), 1e9

    def recorded(rows, *rest):
        seen["rows"] = rows
        return Learner.update(learner, rows, *rest)

    def recorded_targets(*args):
        seen["targets"] = compute_targets(*args)
        return seen["targets"]

    monkeypatch.setattr(learner, "update", recorded)
    monkeypatch.setattr("benchmarks.study.learner.compute_targets", recorded_targets)
    before = [p.detach().clone() for p in parameters]
    trainer.step(1)
    steps = [old - p.detach() for old, p in zip(before, parameters, strict=True)]
    for p, old in zip(parameters, before, strict=True):
        p.data.copy_(old)
    learner.optimizer.zero_grad()
    rows, advantages = seen["rows"], seen["targets"].advantages
    assert {role for row in rows for role in row.role} == {Role.ATTEMPT, Role.DISTILL, Role.FEEDBACK}
    pairs = zip(rows, advantages, strict=True)
    loss = -sum((_log_prob(learner.model, row) * values[: len(row.role)]).sum() for row, values in pairs)
    (loss / (4 * 2 * config.data.max_response_length)).backward()
    for step, parameter in zip(steps, parameters, strict=True):
        assert (step - parameter.grad).abs().max() < 1e-5


def _log_prob(model, row):
    ids = torch.tensor(row.prompt_ids + row.response_ids)
    logits = model(input_ids=ids[None]).logits[0, len(row.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, torch.tensor(row.response_ids)[:, None]).squeeze(-1)


def test_feedback_modelling_refuses_a_constant_sentence(out):
    with pytest.raises(ConfigError, match="always says the same"):
        Trainer(Run("correctness", "fm", 0).config(QUICK), out / "policy", problems().train, 1)


def test_held_out_matrices_are_in_no_batch():
    train, test = ({str(p.data["matrix"]) for p in split} for split in (problems().train, problems().test))
    assert not train & test


def test_accuracy_is_read_on_the_line_between_two_evaluations():
    curve = [{"sessions": 0, "acc": 0.0}, {"sessions": 10, "acc": 0.5}, {"sessions": 20, "acc": 0.6}]
    assert value_at(curve, "sessions", 5) == 0.25
    assert value_at(curve, "sessions", 20) == 0.6
