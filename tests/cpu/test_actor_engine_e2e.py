"""The CPU's engine in verl's training worker, on one and two ranks: log-probs, entropies and
gradients against plain PyTorch, row by row, in fp32 and bf16.
"""

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.adapters.training.test_logit_engine_e2e import ACTOR, POLICY, run
from tests.support.engine import plain
from tests.support.engine.engine_rank import NUM_EPISODES, TEMPERATURE

pytestmark = pytest.mark.e2e
LAYOUTS = {
    "two ranks": (2, [f"{ACTOR}.ppo_max_token_len_per_gpu=12"]),
    "verl's own path": (
        1,
        [f"{ACTOR}.use_dynamic_bsz=false", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2"],
    ),
    "bf16": (1, ["rltf/hardware=cpu_bf16"]),
}


# The trainer takes the steps of the others in test_teacher_e2e.py and, nightly, in
# test_modes_e2e.py.
@pytest.mark.parametrize(
    "layout",
    [pytest.param(name, marks=[] if name == "bf16" else pytest.mark.nightly) for name in LAYOUTS],
)
def test_log_probs_and_gradient_equal_plain_pytorch(tmp_path, layout):
    world, settings = LAYOUTS[layout]
    record = run(tmp_path, world, ["rltf.logit_distill.weight=0", *settings])
    assert record["shared"] == (layout != "verl's own path")
    model = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    # Random tokens under a peaked policy: their log-probs lie around -20, 0.3 is 1.5 % of that.
    loss, far = torch.zeros(()), 0.3 if layout == "bf16" else 1e-5
    given = {
        name: [row for rank in record["outputs"] for row in rank[name]]
        for name in ("log_probs", "entropy")
    }
    for i, row in enumerate(record["rows"]):
        outputs = plain.log_probs(model, row["x0"], row["y"], TEMPERATURE)
        log_probs, entropy = plain.of_tokens(outputs, row["y"]), plain.entropy(outputs)
        start, end = len(row["x0"]) - 1, len(row["x0"]) + len(row["y"]) - 1
        assert (given["log_probs"][i][start:end] - log_probs).abs().max() < far
        assert (given["entropy"][i][start:end] - entropy).abs().max() < far
        loss = loss - (row["advantage"] * (log_probs + 1).exp()).sum()  # old log-probs are -1
    (loss / NUM_EPISODES).backward()
    scale = max(parameter.grad.abs().max() for parameter in model.parameters())
    for name, parameter in model.named_parameters():
        assert (record["grads"][name] - parameter.grad).abs().max() < far * scale, name
        assert record["grads"][name].dtype == torch.float32
    assert (record["micro"] > 1) == (layout != "bf16")
