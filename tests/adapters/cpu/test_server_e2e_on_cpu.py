"""The server actor under real Ray: generate, sync weights through the adapter, abort, resume."""

import asyncio

import pytest

pytestmark = pytest.mark.e2e


@pytest.fixture
def model_path(tmp_path, model):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    vocab = {f"t{i}": i for i in range(61)}
    tokenizer = Tokenizer(WordLevel(vocab, unk_token="t0"))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="t60", pad_token="t0"
    ).save_pretrained(tmp_path)
    model.config.eos_token_id = model.generation_config.eos_token_id = 60
    model.save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.fixture
def started_ray(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setenv("RANK", "0")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def rollout_config(**changes):
    from omegaconf import OmegaConf

    fields = {
        "_target_": "verl.workers.config.RolloutConfig",
        "name": "transformers",
        "dtype": "float32",
        "tensor_model_parallel_size": 1,
        "prompt_length": 16,
        "response_length": 12,
        "max_model_len": 64,
        "load_format": "dummy",
    }
    return OmegaConf.create(fields | changes)


async def test_server_follows_the_weights_that_the_adapter_sends(started_ray, model_path, model):
    from omegaconf import OmegaConf
    from rltf_verl.adapters.cpu.rollout.replica import server_name

    from rltf_verl.adapters.cpu.rollout.adapter import TransformersAdapter
    from rltf_verl.adapters.cpu.rollout.server import TransformersServer

    config = rollout_config()
    model_config = OmegaConf.create(
        {
            "_target_": "verl.workers.config.HFModelConfig",
            "path": model_path,
            "override_config": {"attn_implementation": "sdpa"},
        }
    )
    server = started_ray.remote(TransformersServer).options(
        name=server_name("transformers", 0), max_concurrency=64
    )
    server = server.remote(config, model_config)
    call = {"prompt_ids": [1, 2, 3], "sampling_params": {"temperature": 0, "logprobs": True}}
    with pytest.raises(RuntimeError, match="no weights yet"):
        await server.generate.remote(**call, request_id="0")

    adapter = TransformersAdapter(config, model_config, None)
    await adapter.update_weights(model.state_dict().items(), global_steps=5)
    outputs = await asyncio.gather(
        *[server.generate.remote(**call, request_id=f"a{i}") for i in range(8)]
    )
    assert {tuple(output.token_ids) for output in outputs} == {tuple(outputs[0].token_ids)}
    assert outputs[0].extra_fields["global_steps"] == 5
    assert len(outputs[0].log_probs) == len(outputs[0].token_ids) <= 12

    await server.abort_all_requests.remote()
    waiting = server.generate.remote(**call, request_id="b")
    await asyncio.sleep(0.2)
    await server.resume_generation.remote()
    assert (await waiting).token_ids == outputs[0].token_ids
    await server.abort_all_requests.remote(reject_request=True)
    assert (await server.generate.remote(**call, request_id="c")).stop_reason == "aborted"
