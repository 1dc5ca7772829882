"""The server of a replica: generate, new weights, abort, resume."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from verl.plugin.platform import platform_manager

from rltf_verl.cpu.platform import CPUPlatform
from rltf_verl.sampler import server as server_module
from rltf_verl.sampler.server import TransformersServer, max_cache_bytes
from rltf_verl.sampler.weights import packed

ROLLOUT = {
    "_target_": "verl.workers.config.RolloutConfig",
    "name": "transformers",
    "dtype": "float32",
    "tensor_model_parallel_size": 1,
    "prompt_length": 16,
    "response_length": 12,
    "max_model_len": 64,
    "load_format": "dummy",
}
CALL = {"prompt_ids": [1, 2, 3], "sampling_params": {"temperature": 0, "logprobs": True}}


@pytest.fixture
def make(tmp_path, model, monkeypatch):
    """A server with the rollout's settings and others."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setattr(platform_manager, "_current_platform", CPUPlatform())
    words = Tokenizer(WordLevel({f"t{i}": i for i in range(61)}, unk_token="t0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="t60", pad_token="t0")
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    target = {"_target_": "verl.workers.config.HFModelConfig", "path": str(tmp_path)}
    return lambda **other: TransformersServer(
        OmegaConf.create(ROLLOUT | other), OmegaConf.create(target)
    )


async def test_a_server_follows_its_weights_and_pauses_and_resumes(make, model):
    server = make()
    with pytest.raises(RuntimeError, match="no weights yet"):
        await server.generate(**CALL, request_id="0")
    await server.update_weights(packed(list(model.state_dict().items())), last=True, global_steps=5)
    outputs = await asyncio.gather(*[server.generate(**CALL, request_id=str(i)) for i in range(8)])
    first = outputs[0]
    assert all(output.token_ids == first.token_ids for output in outputs)
    assert first.extra_fields["global_steps"] == 5
    assert len(first.log_probs) == len(first.token_ids) <= 12
    await server.sleep()  # the cache is empty, and the next prompts are computed again
    await server.wake_up()
    assert (await server.generate(**CALL, request_id="a")).token_ids == first.token_ids
    await server.abort_all_requests()
    waiting = asyncio.create_task(server.generate(**CALL, request_id="b"))
    await server.resume_generation()
    assert (await waiting).token_ids == first.token_ids
    await server.abort_all_requests(reject_request=True)
    assert (await server.generate(**CALL, request_id="c")).stop_reason == "aborted"


@pytest.mark.parametrize(("tokens", "refused"), [(91, False), (90, True), (-4, True)])
def test_a_card_without_room_for_the_longest_request_is_refused(make, monkeypatch, tokens, refused):
    """Its 28 tokens take 64 columns, next to a quarter of the memory for prompts and a sixteenth
    for what ended.
    """
    monkeypatch.setattr(server_module, "max_cache_bytes", lambda *_: 256 * tokens)
    with pytest.raises(ValueError, match="gpu_memory_utilization") if refused else nullcontext():
        make()


def test_the_cache_has_the_share_of_a_device_that_the_weights_leave(model, monkeypatch):
    """Of all its memory, whatever the trainer holds at the moment."""
    card = SimpleNamespace(mem_get_info=lambda: (0, 10**9))
    monkeypatch.setattr(torch, "get_device_module", lambda device: card)
    config = SimpleNamespace(gpu_memory_utilization=0.25)
    weights = sum(weight.numel() for weight in model.parameters())
    assert max_cache_bytes(model, config) is None
    assert max_cache_bytes(model.to("meta"), config) == 250_000_000 - 4 * weights
    assert max_cache_bytes(model.to(torch.bfloat16), config) == 250_000_000 - 2 * weights
