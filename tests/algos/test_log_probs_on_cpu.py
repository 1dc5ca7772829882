"""log-probs of labels in chunks are those of the equation, and those that verl computes."""

import pytest
import torch
from torch.nn.functional import log_softmax
from verl.utils import torch_functional

from rltf_verl.adapters.compat import patch_log_probs
from rltf_verl.algos import log_probs
from rltf_verl.algos.log_probs import label_log_probs

TOKENS, VOCABULARY = 11, 19
TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Four tokens at a time."""
    monkeypatch.setitem(log_probs._CHUNK, "cpu", 4 * VOCABULARY)


def inputs(dtype, tokens=TOKENS):
    generator = torch.Generator().manual_seed(0)
    logits = (8 * torch.randn(tokens, VOCABULARY, generator=generator)).to(dtype)
    labels = torch.randint(VOCABULARY, (tokens,), generator=generator)
    return logits.requires_grad_(), labels, torch.randn(tokens, generator=generator)


@pytest.mark.parametrize("tokens", [TOKENS, 8, 1, 0])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_value_and_gradient_are_those_of_the_equation(dtype, tokens):
    logits, labels, outer = inputs(dtype, tokens)
    exact = logits.detach().double().requires_grad_()
    expected = log_softmax(exact, -1).gather(-1, labels[:, None])[:, 0]
    with torch.device("meta"):
        value = label_log_probs(logits, labels)
        (grad,) = torch.autograd.grad((value * outer).sum(), logits)
    assert value.dtype == (dtype if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(value.double(), expected, atol=2e-6, rtol=1e-6)
    (whole,) = torch.autograd.grad((expected * outer).sum(), exact)
    assert grad.dtype == dtype
    torch.testing.assert_close(grad, whole.to(dtype), atol=1e-6, rtol=2 * torch.finfo(dtype).eps)


def test_verl_computes_them_so_without_flash_attention():
    patch_log_probs(torch_functional)  # it is already; idempotent
    logits, labels, outer = inputs(torch.float32)
    theirs = torch_functional.logprobs_from_logits_v2.__wrapped__(logits, labels)
    ours = torch_functional.logprobs_from_logits_v2(logits, labels=labels)
    assert ours.grad_fn.name() == "_LabelLogProbsBackward"
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    (grad,) = torch.autograd.grad((ours * outer).sum(), logits)
    (expected,) = torch.autograd.grad((theirs * outer).sum(), logits)
    torch.testing.assert_close(grad, expected, atol=1e-6, rtol=1e-6)
    padded = torch_functional.logprobs_from_logits_v2(logits=logits[None], labels=labels[None])
    torch.testing.assert_close(padded[0], theirs, atol=1e-6, rtol=1e-6)
