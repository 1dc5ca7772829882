"""The clients through which episodes reach the rollout engine."""

from __future__ import annotations

from typing import Any

from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from rltf_verl.sampler import ROLLOUT_NAME
from rltf_verl.texts import seed_from


class _SeedPerAttempt(LLMServerClient):
    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        **kwargs: Any,
    ) -> TokenOutput:
        """Send the request with a seed that depends on where it continues."""
        if "seed" in sampling_params and self.config.actor_rollout_ref.rollout.name != ROLLOUT_NAME:
            seed = seed_from(f"{sampling_params['seed']}/{len(prompt_ids)}")
            sampling_params = {**sampling_params, "seed": seed}
        return await super().generate(
            request_id, prompt_ids=prompt_ids, sampling_params=sampling_params, **kwargs
        )


class ResumingClient(FullyAsyncLLMServerClient, _SeedPerAttempt):
    """verl's client that resumes aborted requests, with fresh random numbers for the rest of the
    answer.

    verl 0.9.1 sends the rest with the request's seed. vLLM restarts the seed's stream with
    every request, so the rest would repeat the random numbers that drew the beginning. Our CPU
    engine continues the stream instead. `FullyAsyncLLMServerClient.generate` reaches the engine
    through `super().generate`, which is the class above.
    """


class OnlyServerClient(LLMServerClient):
    """verl's client where one server plays the whole run: it asks the load balancer once.

    verl 0.9.1 asks before every request and reports after it, which is two of a request's three
    calls of other processes (upstream/README.md).
    """

    _only: tuple[str, Any] | None = None

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        if self._only is None:
            self._only = await super()._acquire_server(request_id, **extra)
            # Given back at once: the later requests are not counted either.
            super()._release_server(self._only[0], request_id)
        return self._only

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        """Do nothing: one server needs no load count."""
