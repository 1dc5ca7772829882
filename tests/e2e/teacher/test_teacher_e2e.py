"""Teachers in the real trainer, on two data-parallel workers: of the first of two answers, without
a second answer, and of each attempt of an appended conversation. What they read and say, and the
step taken.
"""

from functools import partial
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from rltf_verl.adapters.queue.columns import teacher_spans
from rltf_verl.objectives.base import VERL_REDUCES
from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.types import Role
from tests.e2e import recorded, runs
from tests.support.engine import plain

pytestmark = pytest.mark.e2e
STEPS, TIMEOUT, TOP_K, BETA, WEIGHT, TEMPERATURE = 2, 600, 8, 0.3, 2.0, 0.8
SETTINGS = [
    f"{runs.MODE}sync",
    *runs.FLAKY,
    # so that the policy gradient is not 0 where all episodes fare alike
    "rltf.attempt.estimator=none",
    f"trainer.total_training_steps={STEPS}",
    "trainer.save_freq=1",
    "trainer.n_gpus_per_node=2",
    f"actor_rollout_ref.rollout.temperature={TEMPERATURE}",
    f"rltf.logit_distill.top_k={TOP_K}",
    f"rltf.logit_distill.divergence.beta={BETA}",
    f"rltf.logit_distill.weight={WEIGHT}",
    *runs.PLAIN_DESCENT,
    # Micro-batches of 8 rows, so that rows and the teacher's rows are padded.
    "actor_rollout_ref.actor.use_dynamic_bsz=false",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
]
LATE = "rltf.schedule.start_step=1"
PLACES = {
    "two answers": [LATE],
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
EVERY_RUN = "two answers"
ROUNDING = 5e-4
"""Nats. In conversations of several turns, and for unlikely tokens, float32 costs
this policy more: of a float64 forward the run was 1.9e-4 away, a float32 forward of its own 1.0e-4,
both together 1.8e-4.
"""
log_probs = partial(plain.log_probs, temperature=TEMPERATURE)
jsd = partial(plain.jsd, top_k=TOP_K, beta=BETA)


@pytest.fixture(
    scope="module",
    params=[p if p == EVERY_RUN else pytest.param(p, marks=pytest.mark.nightly) for p in PLACES],
)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def run(place: str, tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> runs.Run:
    root, settings = tmp_path_factory.mktemp("teacher"), [*SETTINGS, *PLACES[place]]
    return runs.start(root / "run", data, settings, "teacher/sd_logit").finished(TIMEOUT)


@pytest.fixture
def taught(place: str) -> range:
    """The steps that have a teacher."""
    return range(2 if LATE in PLACES[place] else 1, STEPS + 1)


def spans_of(row: recorded.Row) -> list[tuple[slice, torch.Tensor]]:
    """The tokens of each attempt that has a teacher, and the teacher's prompt."""
    spans = teacher_spans(row["rltf_teachers"]) if "rltf_teacher_places" in row else []
    return [(slice(span.start, span.end), torch.tensor(span.prompt_ids)) for span in spans]


def teacher_inputs(run: runs.Run, step: int) -> list[tuple[torch.Tensor, recorded.Row]]:
    """(the teacher's prompt, row) of each row of one attempt that has a teacher."""
    return [(x, row) for row in recorded.rows(run, step) for _, x in spans_of(row)]


def test_each_teacher_reads_what_the_log_says_and_says_what_the_policy_says_there(
    place: str, run: runs.Run, taught: range
) -> None:
    tokenizer, records = AutoTokenizer.from_pretrained(runs.POLICY), read_episodes(run.episodes)
    for step in taught:
        model, texts = recorded.policy(run.folder, step - 1), []
        assert any(tag.get("is_padding") for tag in recorded.record(run, step)["tags"])
        for row in recorded.rows(run, step):
            spans, first = spans_of(row), 0
            places = [i for here, _ in spans for i in range(here.start, here.stop)]
            assert row["rltf_teacher_places"].tolist() == places
            assert row["rltf_teacher_ids"].shape == (len(places), TOP_K)
            assert (row["rltf_role"][places] == Role.ATTEMPT).all()
            for here, x in spans:
                assert len(row["rltf_turn"][here].unique()) == 1, "of one attempt"
                texts.append(tokenizer.decode(x))
                with torch.no_grad():
                    teacher = log_probs(model, x, row["responses"][here])
                ids = row["rltf_teacher_ids"].long()[first : first + len(teacher)]
                reported = row["rltf_teacher_log_probs"][first : first + len(teacher)]
                first += len(teacher)
                assert (teacher.gather(-1, ids) - teacher.topk(TOP_K).values).abs().max() < 1e-4
                assert (teacher.gather(-1, ids) - reported[:, :-1]).abs().max() < ROUNDING
                assert (plain.outcomes(teacher, ids) - reported.double().exp()).abs().max() < 1e-4
        most = max(len(spans_of(row)) for row in recorded.rows(run, step))
        assert (most > 1) == (place == "appended"), "several teachers in a row"
        logged = [
            (prompt_of(record, turn, place), turn["teacher"]["prompt"])
            for record in records
            if record["step"] == step
            for turn in record["turns"]
            if "teacher" in turn
        ]
        assert len(logged) == len(texts) > 0
        for text, prompt in logged:
            assert prompt == text
            assert any(text in read for read in texts), text


def prompt_of(record: dict[str, Any], turn: dict[str, Any], place: str) -> str:
    """What the teacher of a turn is to read."""
    shown = [record["reference"]] if place == "no second answer" else []
    shown += [turn["feedback"]["text"]] if turn["feedback"] else []
    return "\n".join([*(f"!{text}" for text in shown), turn["prompt"] or record["question"]])


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_step_of_the_weights_is_the_gradient_of_the_written_out_loss(
    run: runs.Run, taught: range, step: int
) -> None:
    pulls = [(row, here, x) for row in recorded.rows(run, step) for here, x in spans_of(row)]
    assert bool(pulls) == (step in taught)
    metrics, prefix = run.metrics()[step - 1]["data"], "rltf/logit_distill/"
    ours = {k.removeprefix(prefix): v for k, v in metrics.items() if k.startswith(prefix)}
    assert bool(ours) == (step in taught)
    assert not any(word in name for name in ours for word in VERL_REDUCES)
    divergences = []

    def pull(model: torch.nn.Module) -> torch.Tensor:
        for row, here, x in pulls:
            student = log_probs(model, row["prompts"], row["responses"])[here]
            with torch.no_grad():
                teacher = log_probs(model, x, row["responses"][here])
            divergences.append(jsd(student, teacher))
        return WEIGHT * sum(divergences, torch.zeros(()).double())

    expected = recorded.gradient(run, step, TEMPERATURE, pull)
    assert any(grad.any() for grad in expected.values())
    assert recorded.largest_difference(recorded.step_taken(run, step), expected) < 1e-5
    if pulls:
        num_tokens = recorded.record(run, step)["settings"]["rltf_logit_tokens"]
        assert num_tokens == sum(here.stop - here.start for _, here, _ in pulls)
        assert ours["weight"] == WEIGHT
        assert ours["divergence"] == pytest.approx(float(sum(divergences)) / num_tokens, rel=1e-3)
