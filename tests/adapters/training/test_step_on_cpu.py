"""One step with a teacher, on a queue in memory and workers that answer by a formula: the columns
and constants of the update, and its metrics.
"""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.metrics.roles import sampling_metrics
from rltf_verl.adapters.queue.columns import (
    FACTS,
    ROLE,
    TEACHERS,
    TURN,
    episode_batch,
    ragged,
    teacher_column,
)
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.training.kept_weights import KEPT_WEIGHTS
from rltf_verl.adapters.training.logit_loss import (
    TEACHER_IDS,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
    TEACHER_SPANS,
    loss_with_logits,
)
from rltf_verl.adapters.training.outcomes import PARTITION, clear_outcomes, fetch_outcomes
from rltf_verl.adapters.training.step import (
    StepSettings,
    compute_step,
    poll_interval,
    rollout_correction,
)
from rltf_verl.adapters.training.teacher import Teacher
from rltf_verl.algos.logit_distill import outcome_log_probs, top_k_ids
from rltf_verl.algos.targets import RowBatch
from rltf_verl.config import AttemptConfig, LogitDistillConfig, RLTFConfig, TeacherConfig
from rltf_verl.config.teacher import Divergence, Gate, TeacherKind
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.types import CONTEXT, Role, TeacherSpan
from tests.support.step_queue import StepQueue, facts_of

KEYS = ["a_0_0", "pad_0_0", "a_1_0", "b_0_0"]
SAID = {"a_0_0": [5, 6, 7], "pad_0_0": [5], "a_1_0": [8, 9], "b_0_0": [5, 5]}
RIGHT = {"a_0": False, "a_1": True, "b_0": False}
SPANS = {"a_0_0": (TeacherSpan(1, 3, (2, 3)),), "a_1_0": (TeacherSpan(0, 2, (4,)),)}
OLD = -1.0


def answer(batch):
    """log p(token) = −(token + number of tokens before it) / 10."""
    values = []
    for ids in batch["input_ids"].unbind():
        own = -(ids[1:] + torch.arange(1, len(ids))) / 10
        values.append(torch.cat([own, torch.zeros(1)]))
    assert not batch["compute_loss"]
    return TensorDict({"log_probs": ragged(values)}, len(values))


WORKERS = SimpleNamespace(world_size=1, compute_log_prob=answer)
LOGITS = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0))
"""Of the policy and of the kept weights: [token read, next token]."""


class Ranks:
    """Two of the actor's workers, as verl's bridge to the queue has them: each reads its rows
    there, and writes what it computes into them. Their next token follows from the last one.
    """

    world_size = 2

    def __init__(self, config):
        self.config = config

    def compute_log_prob(self, batch):
        for mine in batch.chunk(self.world_size):
            columns = self.queue.rows(mine.partition_id, mine.keys, mine.fields)
            data = tu.get_tensordict(columns, mine.extra_info)
            logits = LOGITS[int(KEPT_WEIGHTS in mine.extra_info)]
            call = partial(loss_with_logits, None, self.config, data=data)
            rows = columns["input_ids"].unbind()
            said = [logits.log_softmax(-1)[ids, ids.roll(-1)] for ids in rows]  # the last: nothing
            output = {"log_probs": ragged(said)}
            with torch.device("meta"):  # every tensor names its device: a GPU's has another one
                assert call(student_logits=logits[data["input_ids"].values()].unsqueeze(0)) == {}
                loss, _ = call(model_output=output)
            assert loss.device == logits.device
            stored = tq.kv_batch_put(mine.keys, mine.partition_id, output)
        return KVBatchMeta(batch.keys, batch.tags, batch.partition_id, stored.fields)


@pytest.fixture
def step(monkeypatch):
    """Compute and write a step; returns the batch, the written columns, the metrics."""
    responses = [SAID[key] for key in KEYS]
    right = [float(RIGHT[key.rpartition("_")[0].replace("pad", "a")]) for key in KEYS]
    columns = {
        ROLE: [[int(Role.ATTEMPT)] * len(ids) for ids in responses],
        TURN: [[0] * len(ids) for ids in responses],
        "old_log_probs": [[OLD] * len(ids) for ids in responses],
        "rollout_log_probs": [[OLD] * len(ids) for ids in responses],
        "entropy": [[1.0] * len(ids) for ids in responses],
        "responses": responses,
        FACTS: [facts_of([reward], size=1) for reward in right],
    }

    def run(config, loss="rltf_ppo", spans=SPANS, workers=WORKERS, **before):
        columns[TEACHERS] = [teacher_column(spans.get(key, ())) for key in KEYS]
        tags = [{"response_len": len(SAID[k]), "is_padding": k.startswith("pad")} for k in KEYS]
        batch = KVBatchMeta(KEYS, tags, "train")
        batch.extra_info = {}
        queue = workers.queue = StepQueue(monkeypatch, batch, columns)
        actor = {
            "use_dynamic_bsz": True,
            "policy_loss": {"loss_mode": loss},
            "entropy_coeff": 0,
            "use_kl_loss": False,
        }
        role = {"actor": actor, "rollout": {"n": 2, "temperature": 1.0}, "model": {}}
        data = {"train_batch_size": 2, "max_response_length": 10}
        verl = OmegaConf.create({"algorithm": {}, "data": data, "actor_rollout_ref": role})
        step = StepRows.read(batch)
        teacher = Teacher(verl, config, workers).ask(step)
        before = {f"training/{name}": value for name, value in before.items()}
        result = compute_step(step, StepSettings(Method(config), verl, Now(0, 10)), teacher, before)
        batch = result.write(step)
        (written,) = queue.written  # one entry: each costs more than the computation
        lists = {k: [row.tolist() for row in v.unbind()] for k, v in written.items()}
        return batch, lists, result.metrics

    return run


def config(attempt=None, gate=Gate()):  # noqa: B008  # frozen
    return RLTFConfig(
        attempt=attempt or AttemptConfig(estimator="none"),
        logit_distill=LogitDistillConfig(weight=0.5, divergence=Divergence("sampled_token")),
        teacher=TeacherConfig(right=True, reads="reference", gate=gate),
    )


def test_each_token_with_a_teacher_has_its_teachers_log_prob(step):
    batch, written, metrics = step(config())
    # token + tokens before it: (6 + 2, 7 + 3) behind x_T = (2, 3), (8 + 1, 9 + 2) behind (4,)
    assert written["rltf_teacher_places"] == [[1, 2], [], [0, 1], []]
    log_probs = [[-0.8, -1.0], [], [-0.9, -1.1], []]
    assert written["rltf_teacher_log_prob"] == [pytest.approx(row) for row in log_probs]
    assert written["rltf_teacher_weights"] == [[1, 1], [], [1, 1], []]
    assert TEACHER_SPANS not in written
    assert batch.extra_info["rltf_logit_weight"] == 0.5
    assert batch.extra_info["rltf_logit_tokens"] == 4
    assert metrics["rltf/logit_distill/teacher_gap"] == pytest.approx((0.2 + 0 + 0.1 - 0.1) / 4)
    assert metrics["rltf/logit_distill/session_share"] == pytest.approx(2 / 3)
    assert metrics["rltf/logit_distill/token_share"] == pytest.approx(4 / 7)
    assert written["advantages"] == [[0, 0, 0], [0], [1, 1], [0, 0]]


SHARE, TOP_K = 0.3, 4
KINDS = {  # log-probs of the teacher, [token read, next token]
    "policy": LOGITS[0].log_softmax(-1),
    "trust_region": (SHARE * LOGITS[0].softmax(-1) + (1 - SHARE) * LOGITS[1].softmax(-1)).log(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_go_from_worker_to_worker_past_the_driver(step, kind):
    """Two attempts of a row are on two ranks of the teacher's call. A rank of the update without a
    teacher has columns of no token.
    """
    spans = {**SPANS, "a_1_0": (TeacherSpan(0, 1, (4,)), TeacherSpan(1, 2, (3, 1)))}
    read = [3, 6, 4, 1]  # the tokens before those of the attempts
    settings = RLTFConfig(
        logit_distill=LogitDistillConfig(weight=0.5, top_k=TOP_K),
        teacher=TeacherConfig(right=True, reads="reference", kind=TeacherKind(kind, SHARE)),
    )
    workers = Ranks(settings.logit_distill)
    _, written, metrics = step(settings, spans=spans, workers=workers)
    assert set(workers.queue.others[PARTITION]) == set("0123"), "filled up for two ranks"
    for column in workers.queue.rows(PARTITION, "012", workers.queue.fetched).values():
        assert column.dim() == 2, "the driver fetches one number of each token"
    said = KINDS[kind][read]
    larger = LOGITS[int(kind == "trust_region")]  # part of the mixture
    ids = top_k_ids(larger[read], TOP_K)
    outcomes = outcome_log_probs(said, ids)
    gap = said[range(4), [6, 7, 8, 9]].mean() - OLD
    assert metrics["rltf/logit_distill/teacher_gap"] == pytest.approx(float(gap), rel=1e-5)
    tail = float(outcomes[:, -1].exp().mean())
    assert metrics["rltf/logit_distill/teacher_tail"] == pytest.approx(tail, rel=1e-5)

    for rows, tokens in ([2, 0], [2, 3, 0, 1]), ([1, 3], []):
        names = (TEACHER_SPANS, TEACHER_PLACES)
        own = {k: ragged([torch.tensor(written[k][i]).long() for i in rows]) for k in names}
        fetch_outcomes(data := TensorDict(own, 2))
        assert [len(row) for row in data[TEACHER_IDS].unbind()] == [len(tokens) // 2] * 2
        if tokens:
            assert torch.equal(data[TEACHER_IDS].values().long(), ids[tokens])
            torch.testing.assert_close(data[TEACHER_LOG_PROBS].values(), outcomes[tokens])
    for _ in range(2):
        clear_outcomes()
        assert not workers.queue.others[PARTITION]


def test_a_gate_weighs_advantages_and_teacher(step):
    _, written, metrics = step(config(gate=Gate("route")))
    assert written["rltf_teacher_weights"] == [[1, 1], [], [0, 0], []]
    assert written["advantages"] == [[0, 0, 0], [0], [1, 1], [0, 0]]
    assert metrics["rltf/logit_distill/token_weight"] == 0.5
    batch, written, metrics = step(config(gate=Gate("magnitude", 0.5)))
    scaled = [1 + 0.5 * (2.718281828**gap - 1) for gap in (0.1, -0.1)]
    assert written["advantages"][2] == pytest.approx(scaled)
    assert not any("teacher" in name for name in written), "nothing is left for the loss"
    assert "rltf_logit_weight" not in batch.extra_info
    assert metrics["rltf/logit_distill/teacher_gap_abs"] == pytest.approx(0.1)


def test_the_mean_divergence_is_of_the_rows_that_are_updated(step):
    """The right answer has no advantage and, routed, no teacher: its row is left out of the update,
    but not where every token has a loss.
    """
    settings = config(AttemptConfig(weight=0), Gate("route"))
    batch, _, _ = step(settings)
    assert batch.extra_info["rltf_logit_tokens"] == 2
    batch, _, _ = step(settings, loss="dro")
    assert batch.extra_info["rltf_logit_tokens"] == 4


@pytest.mark.parametrize(("dropped", "share"), [(0, 1 / 4), (1, 3 / 6)])
def test_episodes_of_a_group_that_verl_drops_are_lost(step, dropped, share):
    """Of two groups of two, three episodes are there."""
    _, _, metrics = step(config(), **{"rollout_failure/evicted_samples": dropped})
    assert metrics["rltf/session/lost_share"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("problems", "expected"), [(4, 0.05), (256, 0.2048), (1024, 0.8192), (4096, 2.0)]
)
def test_the_queue_is_looked_at_less_often_the_more_rows_a_step_has(problems, expected) -> None:
    verl = OmegaConf.create(
        {
            "data": {"train_batch_size": problems},
            "actor_rollout_ref": {"rollout": {"n": 8}},
        }
    )
    assert poll_interval(verl, RLTFConfig(), 2.0) == pytest.approx(expected)


def test_a_step_in_which_the_policy_sampled_no_token_is_no_failure():
    """As where only calls are trained and nobody calls a tool."""
    zeros = torch.zeros(2)
    batch = RowBatch(
        role=torch.full((2,), CONTEXT),
        turn=zeros.long(),
        episode=torch.tensor([0, 1]),
        lengths=torch.ones(2, dtype=torch.int64),
        episodes=episode_batch(torch.stack([facts_of([0.0])] * 2), zeros.long()),
        old_log_probs=zeros,
        sampler_log_probs=zeros,
    )
    of_tokens = {"rollout_is": "token", "rollout_is_threshold": 2.0}
    assert rollout_correction(batch, of_tokens) == (None, {})
    assert sampling_metrics(batch, zeros) == {}
