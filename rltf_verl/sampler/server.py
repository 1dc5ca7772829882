"""The Ray actor behind one rollout replica: verl's server interface over a `GenerationLoop`.

Generation runs in its own thread, so the actor's event loop answers at any time. There is no
memory to release on a CPU, hence `sleep`, `wake_up` and the cache calls have nothing to do. torch
uses OMP_NUM_THREADS threads, which `cpu/processes` chooses where the user has not.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import DictConfig
from transformers import AutoModelForCausalLM, PreTrainedModel
from verl.plugin.platform import get_platform
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.device import get_device_name
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.replica import TokenOutput

from rltf_verl.hardware import cpu_services
from rltf_verl.sampler.generation import ABORTED, BatchGenerator, Request
from rltf_verl.sampler.loop import GenerationLoop
from rltf_verl.sampler.models import context_of, end_tokens
from rltf_verl.sampler.sampling import SamplingParams
from rltf_verl.sampler.slot_cache import reserved
from rltf_verl.sampler.weights import Bucket, Wire, unpacked

logger = logging.getLogger(__name__)


class TransformersServer:
    """Serves one model. Every public method is called by verl or by `TransformersAdapter` through
    Ray.
    """

    def __init__(self, config: DictConfig, model_config: DictConfig, replica_rank: int = 0) -> None:
        self.config: RolloutConfig = omega_conf_to_dataclass(config, dataclass_type=RolloutConfig)
        of_model = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        model = load_model(of_model, self.config)
        context = context_of(model.config.get_text_config())
        self.max_model_len = self.config.max_model_len or context or sys.maxsize
        services = cpu_services()
        generator = BatchGenerator(
            model,
            eos_token_ids=end_tokens(of_model.generation_config, of_model.tokenizer),
            max_rows=self.config.max_num_seqs,
            max_prefill_tokens=self.config.max_num_batched_tokens,
            # as verl's vLLM server, so that replicas draw different numbers
            seed=self.config.seed + replica_rank,
            max_cache_bytes=max_cache_bytes(model, self.config),
            prepare=services.prepare_model if services else None,
        )
        require_room(generator.room, self.config)
        self.loop = GenerationLoop(generator)
        self._ready = self.config.load_format != "dummy"
        self._rejecting = False
        self._staged: Bucket = []

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: list[Any] | None = None,
        video_data: list[Any] | None = None,
        **_kwargs: Any,
    ) -> TokenOutput:
        """Continue one prompt. While generation is stopped the request waits, or is rejected if the
        stop asked for it.
        """
        if image_data or video_data:
            raise ValueError("rollout.name=transformers is text only: use vllm")
        if not self._ready:
            raise RuntimeError(
                "the rollout has no weights yet: rollout.load_format=dummy waits for the first sync"
            )
        params = SamplingParams.from_dict(sampling_params, self._max_tokens(len(prompt_ids)))
        if self._rejecting:
            return self._output([], [], ABORTED, None)
        request = Request(request_id, [int(token) for token in prompt_ids], params)
        result = await asyncio.wrap_future(self.loop.submit(request))
        log_probs = result.log_probs if sampling_params.get("logprobs") else None
        return self._output(result.token_ids, log_probs, result.stop_reason, result.version)

    async def update_weights(
        self,
        wire: Wire,
        last: bool,
        global_steps: int | None = None,
        peft_config: dict[str, Any] | None = None,
    ) -> None:
        """Collect a bucket of weights; the last one swaps them all in, between two steps, as
        version `global_steps`.

        With `peft_config` they are those of a LoRA adapter.
        """
        self._staged += unpacked(wire)
        if not last:
            return
        staged, self._staged = self._staged, []
        await asyncio.wrap_future(
            self.loop.call(lambda g: g.load(staged, global_steps, peft_config))
        )
        # the tensors first: what is free goes back
        staged.clear()
        get_platform().empty_cache()
        self._ready = True

    async def abort_all_requests(
        self, reset_prefix_cache: bool = True, reject_request: bool = False
    ) -> dict[str, Any]:
        """Stop generation and return every begun request as it is. Later ones wait, or are
        rejected.
        """
        self._rejecting = reject_request
        request_ids = await asyncio.wrap_future(self.loop.abort())
        return {"aborted_count": len(request_ids), "request_ids": request_ids}

    async def resume_generation(self) -> None:
        """Go on after `abort_all_requests`."""
        self._rejecting = False
        self.loop.resume()

    async def ping(self) -> str:
        """Return once the model is loaded."""
        return type(self).__name__

    async def _nothing(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: weights stay in memory, and the process is profiled from outside."""

    async def _release(self, *_args: Any, **_kwargs: Any) -> None:
        """Make room for the update: on a GPU the trainer shares its memory."""
        await asyncio.wrap_future(self.loop.call(lambda g: g.forget()))
        get_platform().empty_cache()

    sleep = clear_kv_cache = release_kv_cache = _release
    wake_up = resume_kv_cache = start_profile = stop_profile = _nothing

    def _max_tokens(self, prompt_length: int) -> int:
        room = self.max_model_len - prompt_length
        if room < 1:
            raise ValueError(
                f"a prompt of {prompt_length} tokens leaves no room in"
                f" max_model_len={self.max_model_len}"
            )
        return min(self.config.response_length, room)

    @staticmethod
    def _output(
        token_ids: list[int], log_probs: list[float] | None, reason: str, version: int | None
    ) -> TokenOutput:
        return TokenOutput(
            token_ids=token_ids,
            log_probs=log_probs,
            stop_reason=reason,
            extra_fields={"global_steps": version},
        )


def load_model(model_config: HFModelConfig, config: RolloutConfig) -> PreTrainedModel:
    """Build the model: from disk, or with random weights when the trainer sends them
    (`load_format: dummy`).
    """
    options = {"dtype": PrecisionType.to_dtype(str(config.dtype)), "attn_implementation": "sdpa"}
    trust, device = model_config.trust_remote_code, torch.device(get_device_name())
    if config.load_format == "dummy":
        with device:
            return AutoModelForCausalLM.from_config(
                model_config.hf_config, trust_remote_code=trust, **options
            )
    model = AutoModelForCausalLM.from_pretrained(
        str(model_config.local_path),
        config=model_config.hf_config,
        trust_remote_code=trust,
        **options,
    )
    return model.to(device)  # type: ignore[arg-type]  # its decorator hides the signature


def max_cache_bytes(model: PreTrainedModel, config: RolloutConfig) -> int | None:
    """Memory for keys and values: a device's share for the rollout, less the weights. None on a
    CPU, which has no memory of its own.
    """
    if model.device.type == "cpu":
        return None
    _, total = torch.get_device_module(model.device).mem_get_info()
    weights = sum(parameter.nbytes for parameter in model.parameters())
    return int(config.gpu_memory_utilization * total) - weights


def require_room(room: float, config: RolloutConfig) -> None:
    """Raise ValueError unless the cache holds the longest request, alone.

    Args:
        room: tokens.
        config: of the rollout.
    """
    longest = config.prompt_length + config.response_length
    if reserved(1, longest) > room:
        raise ValueError(
            f"actor_rollout_ref.rollout.gpu_memory_utilization={config.gpu_memory_utilization}:"
            f" beside the model's weights it holds the keys and values of {max(0, int(room))}"
            f" tokens, and a request has up to {longest}; raise it, or lower"
            " rollout.max_num_batched_tokens, data.max_prompt_length or data.max_response_length"
        )
