"""Logit distillation around the engine: what is refused, who has a teacher, which logits predict
which token; and the actor's pass over a step's rows.
"""

import dataclasses
import math
import re
from types import SimpleNamespace

import pytest
import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.agent_loop_tq import list_of_dict_to_tensordict
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.tensordict_utils import assign_non_tensor

from rltf_verl.adapters.queue.columns import (
    episode_facts,
    ragged,
    row_columns,
)
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.training.kept_weights import KEPT_WEIGHTS
from rltf_verl.adapters.training.logit_loss import (
    DIVERGENCE,
    FIRST_SHARE,
    LOGIT_ROWS,
    NUM_TOKENS,
    TEACHER_CALL,
    TEACHER_IDS,
    TEACHER_LOG_PROB,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
    TEACHER_WEIGHTS,
    WEIGHT,
    divergence,
    teacher_loss,
)
from rltf_verl.adapters.training.teacher import (
    TeacherInput,
    ask_teacher,
    fold_contrast,
    kept_share,
    mixture_of,
    read_teacher_inputs,
    teacher_batch,
    token_places,
    with_contrast,
)
from rltf_verl.adapters.training.trainer import RLTFTrainerSync
from rltf_verl.algos.logit_distill import logit_divergence, outcome_log_probs, top_k_ids
from rltf_verl.config import ConfigError, LogitDistillConfig, TeacherConfig
from rltf_verl.config.teacher import Divergence, TeacherKind
from tests.episode.test_teacher_on_cpu import parts_of, play
from tests.support.configs import composed

ACTOR = "actor_rollout_ref.actor"
SAMPLED = "rltf.logit_distill.divergence=sampled_token"
SD_LOGIT = ("rltf/method=teacher/sd_logit", "actor_rollout_ref.model.path=/nowhere")


def logit(*overrides):
    return composed("rltf", *SD_LOGIT, *overrides)


REFUSED = {  # what is set, and how the message starts
    "a sibling alone": (
        ["rltf.teacher.reads=sibling", "actor_rollout_ref.rollout.n=1"],
        "actor_rollout_ref.rollout.n=1: rltf.teacher.reads=sibling needs other episodes of the",
    ),
    "divergence": (
        ["rltf.logit_distill.divergence=kl"],
        "rltf.logit_distill.divergence=",
    ),
    "beta": (
        ["rltf.logit_distill.divergence.beta=1"],
        "rltf.logit_distill.divergence.beta=1: must be in (0, 1)",
    ),
    "top_k": (["rltf.logit_distill.top_k=0"], "rltf.logit_distill.top_k=0: must be at least 1"),
    "megatron": (
        ["model_engine=megatron"],
        f"{ACTOR}.strategy=megatron: rltf.logit_distill reads logits ",
    ),
    "veomni": (
        ["model_engine=veomni"],
        f"{ACTOR}.strategy=veomni: rltf.logit_distill reads logits ",
    ),
    "fused": (
        ["actor_rollout_ref.model.use_fused_kernels=true"],
        "actor_rollout_ref.model.use_fused_kernels=True: ",
    ),
    "sequence parallel": (
        [f"{ACTOR}.ulysses_sequence_parallel_size=2"],
        f"{ACTOR}.ulysses_sequence_parallel_size=2: ",
    ),
    "static shapes": (
        [f"{ACTOR}.fsdp_config.pad_to_length=true"],
        f"{ACTOR}.pad_to_length=True: verl refuses it ",
    ),
    "weights on megatron": (
        ["model_engine=megatron", "rltf.teacher.kind=ema", SAMPLED],
        f"rltf.teacher.kind=ema: {ACTOR}.strategy=megatron has no place ",
    ),
    "kind": (["rltf.teacher.kind=mean"], "rltf.teacher.kind=mean: must be one of policy, base"),
    "gate": (["rltf.teacher.gate=rout"], "rltf.teacher.gate="),
    "clip": (
        [SAMPLED, "+rltf.logit_distill.divergence.term_clip=0.05"],
        "rltf.logit_distill.divergence.name=None: must name one",
    ),
    "magnitude": (
        ["rltf.teacher.gate=magnitude", "rltf.logit_distill.weight=2"],
        "rltf.logit_distill.weight=2: with rltf.teacher.gate=magnitude ",
    ),
    "residual": (
        ["rltf.teacher.gate=residual", "rltf.logit_distill.weight=2"],
        "rltf.logit_distill.weight=2: with rltf.teacher.gate=residual ",
    ),
    "contrast of distributions": (
        ["rltf.teacher.against=reference_only"],
        "rltf.teacher.against=reference_only: a contrast is one of log-probs ",
    ),
    "contrast of one by one": (
        [
            SAMPLED,
            "rltf.teacher.against=other_problem",
            "trainer.v1.trainer_mode=rltf_colocate_async",
        ],
        "trainer.v1.trainer_mode=rltf_colocate_async: problems are played one by one",
    ),
    "nobody asks": (
        ["rltf.teacher.kind=base", "rltf.logit_distill.weight=0"],
        "rltf.teacher.kind=base: the teacher is unused; ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_key_value_and_fix(case):
    overrides, message = REFUSED[case]
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        checks.checked_parts(logit(*overrides))


ENGINES = ("megatron", "veomni", "fused", "sequence parallel")
LORA = "actor_rollout_ref.model.lora.rank=8"
WORKS = [
    # a sampled token needs no logits
    *([*REFUSED[case][0], SAMPLED] for case in ENGINES),
    # with LoRA the base is on every engine
    ["model_engine=megatron", LORA, SAMPLED, "rltf.teacher.kind=base"],
    # without the objective it is not refused
    *(
        [*REFUSED[case][0], "rltf.logit_distill.weight=0"]
        for case in ("megatron", "fused", "sequence parallel", "static shapes")
    ),
]


@pytest.mark.parametrize("overrides", WORKS)
def test_what_works_is_not_refused(overrides):
    checks.checked_parts(logit(*overrides))


def test_the_teachers_rows_are_revise_prompt_and_first_attempt_filled_up_with_the_shortest():
    ids = lambda start, n: torch.arange(start, start + n)  # noqa: E731
    inputs = [
        TeacherInput(0, 0, ids(10, 4), ids(50, 3), torch.zeros(3)),
        TeacherInput(2, 5, ids(20, 1), ids(60, 2), torch.zeros(2)),
    ]
    asked = LogitDistillConfig(weight=1.0)
    batch = teacher_batch(inputs, multiple=4, temperature=0.7, asked=asked)
    rows = [[10, 11, 12, 13, 50, 51, 52], [20, 60, 61], [20, 60, 61], [20, 60, 61]]
    assert [row.tolist() for row in batch["input_ids"].unbind()] == rows
    assert [row.tolist() for row in batch["position_ids"].unbind()] == [
        list(range(len(row))) for row in rows
    ]
    assert batch[TEACHER_CALL] is True
    assert batch["temperature"] == 0.7
    only = LogitDistillConfig(weight=1.0, divergence=Divergence("sampled_token"), entropy_decay=1.0)
    batch = teacher_batch(inputs, multiple=1, temperature=0.7, asked=only)
    assert TEACHER_CALL not in batch
    assert not batch["compute_loss"]
    assert not batch["distillation_use_topk"]
    assert batch["calculate_entropy"]


KINDS = {  # without LoRA, with LoRA: (settings of each part, share of the weights kept)
    "policy": ([{}], None, [{}], None),
    "base": ([{KEPT_WEIGHTS: True}], 0.0, [{"no_lora_adapter": True}], None),
    "ema": ([{KEPT_WEIGHTS: True}], 0.3, [{KEPT_WEIGHTS: True}], 0.3),
    "trust_region": (
        [{KEPT_WEIGHTS: True}, {}],  # the largest part first
        0.0,
        [{"no_lora_adapter": True}, {}],
        None,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_asked(kind):
    teacher = TeacherConfig(kind=TeacherKind(kind, 0.3))
    for lora, (settings, share) in enumerate([KINDS[kind][:2], KINDS[kind][2:]]):
        assert [part.settings for part in mixture_of(teacher, bool(lora))] == settings
        assert kept_share(teacher, bool(lora)) == share
        assert sum(part.share for part in mixture_of(teacher, bool(lora))) == 1


@pytest.mark.parametrize("kind", ["policy", "trust_region"])
def test_a_contrast_is_the_right_prompt_against_the_mean_of_the_wrong_ones(kind):
    """In one call; of a mixture each prompt's probability is the mixture's."""
    lengths, prompts, said = [3, 2], [3, 1], torch.Generator().manual_seed(0)
    inputs = [
        TeacherInput(
            row,
            0,
            torch.arange(4),
            torch.arange(n),
            torch.rand(n, generator=said).log(),
            [torch.arange(2 + i) for i in range(k)],
        )
        for row, (n, k) in enumerate(zip(lengths, prompts, strict=True))
    ]
    asked = with_contrast(inputs)
    assert [(x.row, len(x.prompt)) for x in asked] == [
        (0, 4),
        (1, 4),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 2),
    ]
    parts = mixture_of(TeacherConfig(kind=TeacherKind(kind, 0.25)), lora=False)
    probs = [[torch.rand(len(x.response), generator=said) for x in asked] for _ in parts]

    def call(settings):
        own = probs[int(FIRST_SHARE in settings)]
        padded = [
            torch.nn.functional.pad(p.log(), (len(x.prompt) - 1, 1))
            for p, x in zip(own, asked, strict=True)
        ]
        return TensorDict({"log_probs": ragged(padded), "entropy": ragged(padded)}, len(asked))

    output = fold_contrast(ask_teacher(asked, parts, call), inputs)
    mixed = probs[0]
    if kind == "trust_region":
        mixed = [0.75 * a + 0.25 * b for a, b in zip(*probs, strict=True)]
    wrong = [(mixed[2] + mixed[3] + mixed[4]) / 3, mixed[5]]
    own = torch.cat([x.log_probs for x in inputs])
    gap = 10 * ((torch.cat(mixed[:2]) / torch.cat(wrong)).log() / 10).tanh()
    torch.testing.assert_close(output.log_probs, torch.cat(mixed[:2]).log())
    torch.testing.assert_close(output.against, torch.cat(wrong).log())
    torch.testing.assert_close(output.gap, gap)
    torch.testing.assert_close(output.target, own + gap)


def test_where_the_teachers_tokens_are_among_all_rows_tokens():
    two, three = torch.zeros(2), torch.zeros(3)
    inputs = [
        TeacherInput(0, 1, two, two, two),
        TeacherInput(2, 0, two, two, two),
        TeacherInput(2, 2, two, three, two),
    ]
    place = token_places(inputs, SimpleNamespace(lengths=torch.tensor([4, 3, 5])))
    assert place.tolist() == [1, 2, 7, 8, 9, 10, 11]


def test_teacher_inputs_of_an_appended_conversation_are_the_attempts_as_they_were_sampled(
    monkeypatch,
):
    """From the episode through verl's columns to the trainer."""
    parts = parts_of(horizon=3, context="append", turns="all")
    episode, rows = play(parts, ["no", "nope", "yes"])
    assert len(rows) == 1, "one growing row"
    facts = episode_facts(episode, 3)
    fields = [
        {
            "responses": torch.tensor(row.response_ids),
            "old_log_probs": torch.tensor(row.log_probs),
            "rollout_log_probs": torch.tensor(row.log_probs),
            **row_columns(row, facts, teaches=True),
        }
        for row in (rows[0], dataclasses.replace(rows[0], teachers=()))
    ]
    stored = list_of_dict_to_tensordict(fields)
    monkeypatch.setattr(
        tq, "kv_batch_get", lambda select_fields, **_: stored.select(*select_fields)
    )
    batch = KVBatchMeta(partition_id="train", keys=["p_0_0", "p_1_0"], tags=[{}, {}])
    inputs, turns = read_teacher_inputs(StepRows.read(batch, scored=False)), episode.turns[:2]
    assert [(one.row, one.start) for one in inputs] == [
        (0, 0),
        (0, len(turns[1].attempt.prompt_ids) - len(rows[0].prompt_ids)),
    ]
    for one, turn in zip(inputs, turns, strict=True):
        assert tuple(one.response.tolist()) == turn.attempt.response_ids
        assert tuple(one.prompt.tolist()) == turn.teacher.ids
        assert one.log_probs.tolist() == pytest.approx(turn.attempt.log_probs)


@pytest.mark.parametrize("layout", ["every token", "each state once"])
def test_tokens_without_a_teacher_get_exactly_nothing(layout):
    """Rows of 2 + 3 and 1 + 2 tokens; the second row's answer is the beginning of the first's, so
    an engine that shares prefixes may have one row of logits for both.
    """
    generator, config = torch.Generator().manual_seed(0), LogitDistillConfig(weight=1.0, top_k=2)
    states = torch.randn(5, 7, generator=generator)
    states[3:] = torch.nan  # not even looked at
    rows = torch.tensor([3, 0, 1, 2, 4, 0, 1, 4])  # the state of each token of the batch
    whole = torch.randn(4, 7, generator=generator)
    ids = top_k_ids(whole, 2)
    lengths = {"input_ids": (5, 3), "responses": (3, 2)}
    columns = {name: ragged([torch.zeros(n) for n in sizes]) for name, sizes in lengths.items()}
    columns[TEACHER_PLACES] = ragged([torch.tensor([0, 2]), torch.tensor([0, 1])])
    columns[TEACHER_IDS] = ragged([ids[:2], ids[2:]])
    columns[TEACHER_LOG_PROBS] = ragged([*outcome_log_probs(whole, ids).split(2)])
    logits = (states if layout == "each state once" else states[rows]).requires_grad_()
    if layout == "each state once":
        columns[LOGIT_ROWS] = ragged([rows[:5], rows[5:]])
    data = TensorDict(columns, 2)
    with torch.device("meta"):  # every tensor names its device: a GPU's worker has another one
        (value,) = divergence(logits.unsqueeze(0), data, config)[DIVERGENCE]
    taught = torch.tensor([1, 3, 5, 6])
    student = states.detach()[rows[taught]].requires_grad_()
    expected = logit_divergence(student, ids, outcome_log_probs(whole, ids), "jsd", 0.5)
    torch.testing.assert_close(value[taught], expected)
    assert not value[[0, 2, 4, 7]].any()
    (of_student,) = torch.autograd.grad(expected.sum(), student)
    (grad,) = torch.autograd.grad(value.sum(), logits)
    at = taught if layout == "every token" else rows[taught]
    torch.testing.assert_close(grad, torch.zeros_like(grad).index_add(0, at, of_student))


def of_one_row(logits, places):
    """Divergences of one row of a token and an answer of three, where verl has logits of all."""
    teacher = torch.randn(len(places), 7, generator=torch.Generator().manual_seed(1))
    ids = top_k_ids(teacher, 3)
    columns = {
        "input_ids": ragged([torch.zeros(4)]),
        "responses": ragged([torch.zeros(3)]),
        TEACHER_PLACES: ragged([torch.tensor(places, dtype=torch.int64)]),
        TEACHER_IDS: ragged([ids]),
        TEACHER_LOG_PROBS: ragged([outcome_log_probs(teacher, ids)]),
    }
    config = LogitDistillConfig(weight=1.0, top_k=3)
    return divergence(logits.unsqueeze(0), TensorDict(columns, 1), config)[DIVERGENCE].sum()


def test_a_backward_that_reuses_the_logits_memory_does_not_change_the_gradient():
    """verl's cross-entropy kernel writes its gradient over the logits. No token with a teacher is
    zero with a graph.
    """
    leaf = torch.randn(4, 7, requires_grad=True)
    logits = leaf * 1.0
    value = of_one_row(logits, [0, 2])
    logits.untyped_storage().copy_(torch.zeros_like(logits).untyped_storage())
    (grad,) = torch.autograd.grad(value, leaf)
    (expected,) = torch.autograd.grad(of_one_row(leaf, [0, 2]), leaf)
    assert expected.any()
    torch.testing.assert_close(grad, expected)
    (grad,) = torch.autograd.grad(of_one_row(leaf, []), leaf)
    assert not grad.any()


def test_a_sampled_token_pulls_by_its_gap_times_the_clipped_ratio():
    log_probs = torch.tensor([[-1.0, -2.0, -0.5]], requires_grad=True)
    old = torch.tensor([[-1.0, -4.0, -0.4]])  # ratios 1, e² and e⁻⁰·¹
    data = TensorDict({TEACHER_PLACES: ragged([torch.tensor([1, 2])])}, 1)
    data[TEACHER_LOG_PROB] = ragged([torch.tensor([-1.5, -1.5])])
    data[TEACHER_WEIGHTS] = ragged([torch.tensor([1.0, 0.5])])
    assign_non_tensor(data, **{"dp_size": 2, NUM_TOKENS: 4, WEIGHT: 0.3})
    settings = {"divergence": Divergence("sampled_token"), "ratio_clip": 2.0}
    config = LogitDistillConfig(weight=0.3, **settings)
    loss, metrics = teacher_loss(config, {}, data, log_probs, old)
    (grad,) = torch.autograd.grad(loss, log_probs)
    expected = [[0.0, 0.3 * 2 * -0.5, 0.3 * 0.5 * math.exp(-0.1) * 1.0]]
    torch.testing.assert_close(grad, torch.tensor(expected))
    assert metrics["rltf/logit_distill/divergence"].aggregate() == pytest.approx(0.5 * 2 / 4)


def test_no_metric_compares_tokens_that_were_sampled_under_another_prompt(monkeypatch) -> None:
    """A step may have only such rows to score: a distilled answer, no group with an advantage."""

    def compare(self, batch, metrics):
        metrics["training/rollout_probs_diff_mean"] = 0.5
        return batch

    monkeypatch.setattr(PPOTrainerSync, "_compute_old_log_prob", compare)
    trainer, batch = object.__new__(RLTFTrainerSync), KVBatchMeta(["a"], [{}], "train")
    trainer.skips_scoring = trainer.may_reuse = False
    metrics = dict[str, float]()
    assert trainer._compute_old_log_prob(batch, metrics) is batch
    assert metrics == {}
