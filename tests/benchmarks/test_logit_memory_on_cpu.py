"""A teacher takes at most 6 bytes a logit beyond the logits."""

import pytest
import torch

from benchmarks.logit_memory import at_once, in_chunks, peak_bytes
from rltf_verl.algos import log_probs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_bytes_a_logit(monkeypatch, dtype):
    logits = torch.randn(129, 65536, dtype=dtype)
    # a row at a time: a run has 300 chunks, and also a vocabulary that dwarfs the tokens kept
    monkeypatch.setitem(log_probs._CHUNK, "cpu", logits.numel() // 128)
    assert all(peak_bytes(work) > 10 * logits.numel() for work in at_once(logits))
    teacher, student = (peak_bytes(work) / logits.numel() for work in in_chunks(logits))
    assert teacher < 1
    assert student <= logits.element_size() + 1.5
