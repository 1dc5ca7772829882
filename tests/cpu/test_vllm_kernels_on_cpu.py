"""What we assume of the installed vLLM itself. A failure here means: vLLM has changed."""

import inspect
from types import SimpleNamespace

import pytest
import torch

from rltf_verl.cpu import hooks

pytestmark = pytest.mark.vllm


@pytest.fixture
def dispatch():
    """vLLM's own function, also where our hook has replaced it."""
    pytest.importorskip("vllm", reason="make test-vllm installs it")
    from vllm.model_executor.layers import utils

    return inspect.unwrap(utils.dispatch_cpu_unquantized_gemm)


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
