"""Each teacher in the real trainer: what it says is said by the right weights at the right prompt,
after updates and in a resumed run; the gates act on the targets.
"""

import copy

import pytest
import torch

from tests.e2e import runs
from tests.e2e.recorded import policy
from tests.e2e.teacher.test_teacher_e2e import SETTINGS, TOP_K, log_probs, teacher_inputs
from tests.support.engine.plain import of_tokens, outcomes

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
STEPS, TIMEOUT, SHARE = 3, 900, 0.25
KINDS = {
    "ema": [],
    "base": ["rltf.logit_distill.divergence=sampled_token", "rltf.teacher.gate=route"],
    "trust_region": [
        "rltf.logit_distill.ratio_clip=2",
        "+rltf.logit_distill.divergence.term_clip=0.05",
        "rltf.logit_distill.entropy_decay=1",
        "rltf.teacher.gate=sigmoid",
        "rltf.updates_per_batch=2",
    ],
}


@pytest.fixture(scope="module", params=KINDS)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, runs.Run]:
    """`ema` is resumed from its second step."""
    kind, root = request.param, tmp_path_factory.mktemp(request.param)
    share = "" if kind == "base" else f", policy_share: {SHARE}"
    settings = [*SETTINGS, f"rltf.teacher.kind={{name: {kind}{share}}}", *KINDS[kind]]
    data = runs.build_data(root / "data")
    for steps in (2, STEPS) if kind == "ema" else (STEPS,):
        words = [*settings, f"trainer.total_training_steps={steps}"]
        run = runs.start(root / "run", data, words, "teacher/sd_logit").finished(TIMEOUT)
    return kind, run


def teacher(run: runs.Run, kind: str, step: int, x1: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """[T, V] log-probs of the teacher that `step` asks, from the checkpoints."""
    model = policy(run.folder, step - 1)
    if kind == "ema":
        model = copy.deepcopy(model)
        average = policy(run.folder, 0).state_dict()
        for s in range(1, step):
            now = policy(run.folder, s).state_dict()
            average = {k: (1 - SHARE) * v + SHARE * now[k] for k, v in average.items()}
        model.load_state_dict(average)
    with torch.no_grad():
        if kind in ("ema", "policy"):
            return log_probs(model, x1, y)
        first = log_probs(policy(run.folder, 0), x1, y)
        if kind == "base":
            return first
        return (SHARE * log_probs(model, x1, y).exp() + (1 - SHARE) * first.exp()).log()


def test_it_speaks_with_its_own_weights_at_the_teachers_prompt(run: tuple[str, runs.Run]) -> None:
    kind, made = run
    for step in range(2, STEPS + 1):
        inputs = teacher_inputs(made, step)
        assert inputs
        for x1, row in inputs[:6]:
            expected = teacher(made, kind, step, x1, row["responses"])
            live = teacher(made, "policy", step, x1, row["responses"])
            assert (expected - live).abs().max() > 1e-3, "the weights have moved"
            if kind == "base":
                of_sampled = of_tokens(expected, row["responses"])
                assert (of_sampled - row["rltf_teacher_log_prob"]).abs().max() < 1e-4
                continue
            ids, log_probs_of_ids = row["rltf_teacher_ids"].long(), row["rltf_teacher_log_probs"]
            likeliest = live if kind == "trust_region" else expected
            same = likeliest.gather(-1, ids) - likeliest.topk(TOP_K).values
            assert same.abs().max() < 1e-4
            assert (outcomes(expected, ids).log() - log_probs_of_ids).abs().max() < 1e-4


def test_gate_and_brakes_weigh_the_tokens(run: tuple[str, runs.Run]) -> None:
    kind, made = run
    for step in range(2, STEPS + 1):
        inputs = teacher_inputs(made, step)
        weights = torch.cat([row["rltf_teacher_weights"] for _, row in inputs])
        if kind == "ema":
            assert torch.equal(weights, torch.ones_like(weights))
            continue
        metrics = made.metrics()[step - 1]["data"]
        assert metrics["rltf/logit_distill/token_weight"] == pytest.approx(float(weights.mean()))
        if kind == "base":  # the provider tells wrong answers, and some right ones, of it
            taught = [row for _, row in inputs if row["rltf_teacher_weights"].any()]
            assert taught
            assert all(not row["advantages"].any() for row in taught)
        else:
            gaps = []
            for x1, row in inputs:
                its_own = teacher(made, kind, step, x1, row["responses"])
                gaps.append(of_tokens(its_own, row["responses"]) - row["old_log_probs"])
            entropy = torch.cat([_entropy(made, step, *one) for one in inputs])
            sure = (-entropy).exp()
            expected = torch.cat(gaps).sigmoid() * sure / sure.mean()
            torch.testing.assert_close(weights, expected, rtol=1e-3, atol=1e-4)


def _entropy(run: runs.Run, step: int, x1: torch.Tensor, row: dict) -> torch.Tensor:
    """[T] mean of the two parts of the mixture, each divided by the temperature as verl does."""
    parts = []
    for own in (policy(run.folder, step - 1), policy(run.folder, 0)):
        with torch.no_grad():
            values = log_probs(own, x1, row["responses"])
        parts.append(-(values.exp() * values).sum(-1))
    return SHARE * parts[0] + (1 - SHARE) * parts[1]
