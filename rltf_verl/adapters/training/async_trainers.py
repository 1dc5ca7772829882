"""`rltf_colocate_async` and `rltf_separate_async`: our trainer over verl's two modes with partial
rollouts.
"""

from __future__ import annotations

from typing import cast

from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync

from rltf_verl.adapters.rollout.llm_client import ResumingClient
from rltf_verl.adapters.training.trainer import RLTFTrainerMixin


@register_trainer("rltf_colocate_async")
class RLTFTrainerColocateAsync(RLTFTrainerMixin, PPOTrainerColocateAsync):
    """Trainer and rollout share devices; episodes that are unfinished when a batch is full go on
    with new weights.
    """

    verl_mode = "colocate_async"

    def get_llm_client(self) -> ResumingClient:
        """The client of the agent loops."""
        client = self.llm_server_manager.get_client(client_cls=ResumingClient)
        return cast(ResumingClient, client)


@register_trainer("rltf_separate_async")
class RLTFTrainerSeparateAsync(RLTFTrainerMixin, PPOTrainerSeparateAsync):
    """Rollout replicas have devices of their own and play on while the trainer trains."""

    verl_mode = "separate_async"

    def get_llm_client(self) -> ResumingClient:
        """The client of the agent loops, of the replicas with devices of their own."""
        client = self.standalone_server_manager.get_client(client_cls=ResumingClient)
        return cast(ResumingClient, client)
