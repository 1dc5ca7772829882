"""The server of a replica: generate, new weights, abort, resume."""

import asyncio
from contextlib import nullcontext

import pytest
from omegaconf import OmegaConf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from verl.plugin.platform import platform_manager

from rltf_verl.cpu.platform import CPUPlatform
from rltf_verl.sampler.server import TransformersServer, require_room
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
def server(tmp_path, model, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setattr(platform_manager, "_current_platform", CPUPlatform())
    words = Tokenizer(WordLevel({f"t{i}": i for i in range(61)}, unk_token="t0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="t60", pad_token="t0")
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    target = {"_target_": "verl.workers.config.HFModelConfig", "path": str(tmp_path)}
    return TransformersServer(OmegaConf.create(ROLLOUT), OmegaConf.create(target))


async def test_a_server_follows_its_weights_and_pauses_and_resumes(server, model):
    with pytest.raises(RuntimeError, match="no weights yet"):
        await server.generate(**CALL, request_id="0")
    await server.update_weights(packed(list(model.state_dict().items())), last=True, global_steps=5)
    outputs = await asyncio.gather(*[server.generate(**CALL, request_id=str(i)) for i in range(8)])
    first = outputs[0]
    assert all(output.token_ids == first.token_ids for output in outputs)
    assert first.extra_fields["global_steps"] == 5
    assert len(first.log_probs) == len(first.token_ids) <= 12
    await server.abort_all_requests()
    waiting = asyncio.create_task(server.generate(**CALL, request_id="b"))
    await server.resume_generation()
    assert (await waiting).token_ids == first.token_ids
    await server.abort_all_requests(reject_request=True)
    assert (await server.generate(**CALL, request_id="c")).stop_reason == "aborted"


async def test_sleep_leaves_the_answers_as_they_are(server, model):
    """The cache is empty before the update, and the next prompts are computed again."""
    await server.update_weights(packed(list(model.state_dict().items())), last=True)
    first = await server.generate(**CALL, request_id="0")
    await server.sleep()
    await server.wake_up()
    assert (await server.generate(**CALL, request_id="1")).token_ids == first.token_ids


@pytest.mark.parametrize(("room", "refused"), [(64, False), (63, True), (-3, True)])
def test_a_card_without_room_for_the_longest_request_is_refused(server, room, refused):
    with pytest.raises(ValueError, match="gpu_memory_utilization") if refused else nullcontext():
        require_room(room, server.config)  # 28 tokens take 64 columns
