"""Teachers in the real trainer, on two data-parallel workers, without a second answer and of each
attempt of an appended conversation: what they read and say, and the step taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from rltf_verl.adapters.queue.columns import teacher_spans
from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.types import Role
from tests.e2e import runs
from tests.e2e.teacher.test_sd_logit_e2e import (
    SETTINGS,
    STEPS,
    TIMEOUT,
    TOP_K,
    WEIGHT,
    _jsd,
    _log_probs,
    _model,
    _outcomes,
    _record,
    _require_step,
)

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
ROUNDING = 5e-4
"""Nats. In conversations of several turns float32 costs this policy more: of a float64 forward the
run was 1.9e-4 away, a float32 forward of its own 1.0e-4, both together 1.8e-4.
"""
PLACES = {
    "no second answer": [
        "rltf.episode.horizon=1",
        "rltf.teacher.reads=[feedback,reference]",
        "data.max_prompt_length=80",
    ],
    "appended": [
        "rltf.episode.horizon=3",
        "rltf.episode.context=append",
        "rltf.episode.revise=compact_append",
        "rltf.episode.quote=answer",
        "rltf.teacher.turns=all",
        "data.max_prompt_length=200",
    ],
}


@pytest.fixture(scope="module", params=PLACES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    root = tmp_path_factory.mktemp("teacher")
    own = [*SETTINGS, *PLACES[request.param], "rltf.logit_distill.start_step=0"]
    run = runs.start(
        root / "run",
        runs.build_data(root / "data"),
        own,
        "teacher/sd_logit",
    )
    assert run.wait(TIMEOUT) == 0, run.log[-3000:]
    return run


def rows_of(run: runs.Run, step: int) -> list[dict[str, Any]]:
    record = _record(run, step)
    return [r for r, pad in zip(record["rows"], record["padding"], strict=True) if not pad]


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_each_teacher_reads_what_the_log_says_and_says_what_the_policy_says_there(
    run: runs.Run, step: int
) -> None:
    model, tokenizer = _model(run, step - 1), AutoTokenizer.from_pretrained(runs.POLICY)
    texts, records = [], read_episodes(run.episodes)
    single = max(len(record["turns"]) for record in records) == 1
    for row in rows_of(run, step):
        spans = teacher_spans(row["rltf_teachers"])
        places = [i for span in spans for i in range(span.start, span.end)]
        assert row["rltf_teacher_places"].tolist() == places
        assert (row["rltf_role"][places] == Role.ATTEMPT).all()
        first = 0
        for span in spans:
            turns = row["rltf_turn"][span.start : span.end].unique()
            assert len(turns) == 1, "of one attempt"
            x = torch.tensor(span.prompt_ids)
            texts.append(tokenizer.decode(x))
            with torch.no_grad():
                teacher = _log_probs(model, x, row["responses"][span.start : span.end])
            ids = row["rltf_teacher_ids"].long()[first : first + len(teacher)]
            said = row["rltf_teacher_log_probs"][first : first + len(teacher)]
            first += len(teacher)
            assert (teacher.gather(-1, ids) - teacher.topk(TOP_K).values).abs().max() < 1e-4
            assert (teacher.gather(-1, ids) - said[:, :-1]).abs().max() < ROUNDING
            assert (_outcomes(teacher, ids) - said.double().exp()).abs().max() < 1e-4
    logged = [
        (_expected(record, turn, with_reference=single), turn["teacher"]["prompt"])
        for record in records
        if record["step"] == step
        for turn in record["turns"]
        if "teacher" in turn
    ]
    assert len(logged) == len(texts) > 0
    for text, prompt in logged:
        assert prompt == text
        assert any(text in read for read in texts), text


def _expected(record: dict[str, Any], turn: dict[str, Any], *, with_reference: bool) -> str:
    """What the teacher of a turn is to read."""
    told = [record["reference"]] if with_reference else []
    told += [turn["feedback"]["text"]] if turn["feedback"] else []
    return "\n".join([*(f"!{text}" for text in told), turn["prompt"] or record["question"]])


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_step_of_the_weights_is_the_gradient_of_the_written_out_loss(
    run: runs.Run, step: int
) -> None:
    record, before, after = _record(run, step), _model(run, step - 1), _model(run, step)
    loss = torch.zeros((), dtype=torch.float64)
    for row in rows_of(run, step):
        student = _log_probs(before, row["prompts"], row["responses"])
        own = student.gather(-1, row["responses"].unsqueeze(-1)).squeeze(-1)
        loss = loss - (row["advantages"] * own).sum()
        for span in teacher_spans(row["rltf_teachers"]):
            here = slice(span.start, span.end)
            with torch.no_grad():
                teacher = _log_probs(before, torch.tensor(span.prompt_ids), row["responses"][here])
            loss = loss + WEIGHT * _jsd(student[here], teacher)
    (loss / record["settings"]["rltf_denominator"]).backward()
    _require_step(before, after)


def test_turns_and_metrics(run: runs.Run) -> None:
    for step, line in enumerate(run.metrics(), start=1):
        metrics, records = line["data"], read_episodes(run.episodes)
        played = [r["turns"] for r in records if r["step"] == step]
        taught = [turns for turns in played if any("teacher" in turn for turn in turns)]
        assert metrics["rltf/logit_distill/session_share"] == len(taught) / len(played)
        asked = [t for turns in played for t in turns if t["feedback"] or t["error"]]
        failed = sum(turn["error"] is not None for turn in asked)
        assert metrics["rltf/feedback/failed_share"] == pytest.approx(failed / len(asked))
        wrong = [turns for turns in played if not turns[0]["grade"]["correct"]]
        if max(map(len, played)) == 1:
            assert len(taught) == len(wrong), "the reference is always there"
            assert metrics["rltf/session/turns"] == 1
        else:
            several = [turns for turns in taught if sum("teacher" in t for t in turns) > 1]
            assert several, "several teachers in a row"
