"""The study's loop: it runs, it resumes, and its update is the plain gradient."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.study import mechanism, settings, teachers
from benchmarks.study.controls import control_rows, shuffle_places
from benchmarks.study.learner import Learner
from benchmarks.study.policy import RECIPES, make_policy
from benchmarks.study.report import interval, write_report
from benchmarks.study.runs import result_file, run_all
from benchmarks.study.settings import ARMS, QUICK, Run, compose_config, problems
from benchmarks.study.train import Trainer
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import Role, Row

SHORT = {name: replace(recipe, steps=2) for name, recipe in RECIPES.items()}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder with two finished runs of two steps, and all arms of the other experiment."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(settings, "ARMS", {arm: ARMS[arm] for arm in ("grpo", "fm 0.1 derange")})
        for _ in range(2):
            before = {p: p.stat().st_mtime_ns for p in folder.rglob("*.json")}
            run_all(QUICK, folder, pool, SHORT["vague"])
            mechanism.run_seed(1, folder, mechanism.QUICK, SHORT["blank"])
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*.json")} == before, (
        "finished runs are skipped"
    )
    return folder


@pytest.mark.nightly
def test_a_quick_study_leaves_curves_tables_and_a_picture(out, capsys):
    curve = json.loads(result_file(out, Run("fm 0.1 derange", 1)).read_text())["curve"]
    assert [point["step"] for point in curve] == [0, 1, 2]
    assert curve[-1]["sessions"] == 8
    assert curve[-1]["trained_tokens"] > curve[-1]["sampled_tokens"], (
        "modelled tokens are trained too"
    )
    write_report(out, out / "results.json", out / "study.png")
    printed = capsys.readouterr().out
    assert "| fm 0.1 derange | 1 |" in printed
    assert "| marginal | 1 |" in printed
    assert (out / "study.png").stat().st_size > 10_000
    results = json.loads((out / "results.json").read_text())
    assert {r["arm"] for r in results["methods"]} == {"grpo", "fm 0.1 derange"}
    assert {r["arm"] for r in results["mechanism"]} == set(mechanism.ARMS)


@pytest.mark.nightly
def test_a_policy_follows_from_its_seed(tmp_path):
    first, again, other = (made_from(tmp_path / str(i), seed) for i, seed in enumerate((1, 1, 2)))
    assert (first - again).abs().mean() < 1e-4
    assert (first - other).abs().mean() > 1e-2


def made_from(folder, seed):
    make_policy(folder, SHORT["blank"], seed)
    return torch.cat(
        [weights.flatten() for weights in load_file(folder / "model.safetensors").values()]
    )


@pytest.mark.nightly
def test_the_arms_start_from_the_same_policy_and_only_the_marks_differ(out):
    records = {
        arm: json.loads((out / "mechanism" / f"{arm}-1.json").read_text()) for arm in mechanism.ARMS
    }
    start = pytest.approx(records["none"]["start"], rel=1e-3)
    assert all(r["start"] == start for r in records.values())
    assert records["none"]["curve"][0] == pytest.approx(records["none"]["start"], abs=1e-4)
    assert records["none"]["marks_loss"] is None
    assert len({r["marks_loss"] for r in records.values()}) == len(mechanism.ARMS)


@pytest.mark.nightly
def test_marks_stand_to_the_question_as_the_answer_does(out):
    """The place of mark i, less that of the question's cell i, is what it is for answer cell i."""
    tokenizer = mechanism.Student(out / "policies" / "blank-1", 1e-3).tokenizer
    question, right = mechanism.label(problems().train[0])
    answered = _distance(tokenizer, question, right, question, answer_from=1)  # behind the box
    prompt, marks = next(mechanism.feedback_batches("fm", 1, 0))[0]
    assert (
        _distance(tokenizer, prompt, marks, prompt.rpartition("!")[2].strip(), answer_from=0)
        == answered
    )


def _distance(tokenizer, prompt, target, question, answer_from):
    ids, labels = mechanism.collate([(prompt, target)], tokenizer)
    wanted = tokenizer(question, add_special_tokens=False)["input_ids"]
    places = [i for i in range(ids.shape[1]) if ids[0, i : i + len(wanted)].tolist() == wanted]
    return int((labels[0] != -100).nonzero()[0]) + answer_from - places[-1]


def test_marginal_keeps_the_tokens_of_every_place_and_derange_pairs_different_problems():
    rng = random.Random(0)
    texts = ["=<>/", "<<=/", "?", ">>>/"]
    mixed = shuffle_places(texts, rng)
    assert [len(t) for t in mixed] == [4, 4, 1, 4]
    for place in range(4):
        assert sorted(t[place] for t in mixed if len(t) > place) == sorted(
            t[place] for t in texts if len(t) > place
        )

    def row(prompt, answer, role):
        return Row((prompt,), (answer,), (int(role),), (0,), (0.0,), (0.0,))

    rows = [row(p, 10 * p + s, Role.FEEDBACK) for p in (1, 2, 3) for s in range(2)]
    instead = control_rows("derange", [row(1, 0, Role.ATTEMPT), *rows], [0, 0, 0, 1, 1, 2, 2], rng)
    assert 0 not in instead, "attempts stay"
    assert {new.prompt_ids[0] for new in instead.values()} == {1, 2, 3}
    assert all(new.response_ids[0] // 10 != new.prompt_ids[0] for new in instead.values())
    assert set(control_rows("derange", rows[:2], [0, 0], rng).values()) == {None}, (
        "no other problem, no row"
    )
    assert control_rows("", rows, [0] * 6, rng) == {}


def test_steps_to_the_target_are_read_between_two_looks():
    assert mechanism.steps_to([0.1, 0.3, 0.5], 20) == pytest.approx(30)
    assert mechanism.steps_to([0.5, 0.6], 20) == 0
    assert mechanism.steps_to([0.1, 0.3], 20) is None


def test_an_interval_holds_the_mean_and_needs_two_values():
    assert interval([0.5]) == "0.50"
    assert interval([0.2, 0.4]) == "0.30 [0.20, 0.40]"


@pytest.mark.nightly
def test_the_update_is_the_sum_of_the_roles_gradients(out, monkeypatch):
    """Row by row from the definition; SGD with learning rate 1 makes the step the gradient."""
    run = Run("sd", 1)
    scale = replace(QUICK, problems=4)
    config = compose_config("sd_fm", run.overrides(scale))
    trainer, seen = Trainer(config, out / run.policy, problems().train, 1), {}
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
    assert {role for row in rows for role in row.role} == {
        Role.ATTEMPT,
        Role.DISTILL,
        Role.FEEDBACK,
    }
    log_probs = torch.cat([_log_prob(learner.model, row) for row in rows])
    loss = -(log_probs * advantages).sum()
    (loss / (4 * 2 * config.data.max_response_length)).backward()
    for step, parameter in zip(steps, parameters, strict=True):
        assert (step - parameter.grad).abs().max() < 1e-5


def _log_prob(model, row):
    ids = torch.tensor(row.prompt_ids + row.response_ids)
    logits = model(input_ids=ids[None]).logits[0, len(row.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, torch.tensor(row.response_ids)[:, None]).squeeze(-1)


def test_held_out_matrices_are_in_no_batch():
    train, test = (
        {str(p.data["matrix"]) for p in split} for split in (problems().train, problems().test)
    )
    assert not train & test


@pytest.mark.nightly
@pytest.mark.parametrize("arm", ["policy:sampled_token", "ema:jsd", "trust_region:jsd", "trl"])
def test_each_teacher_of_the_stability_study_trains(arm, tmp_path, capsys):
    out = tmp_path / "teachers.jsonl"
    options = f"--steps 2 --problems 4 --seeds 1 --out {out}"
    teachers.main([arm, *options.split()])
    curve = json.loads(out.read_text())["curve"]
    assert [at["step"] for at in curve] == [1, 2]
    assert all(at["divergence"] > 0 for at in curve)
    assert capsys.readouterr().out.startswith(arm)
