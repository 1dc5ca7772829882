"""verl's tokenisation with answers of a script: prompts as training makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from rltf_verl.adapters.rollout.verl_policy import VerlPolicy
from rltf_verl.adapters.startup.model import Model
from rltf_verl.types import Attempt


class _Loop:
    """The attributes of an agent loop that a policy reads."""

    def __init__(self, config: DictConfig, model: Model) -> None:
        # A plan writes calls as most models do, whatever the run's model does.
        self.rollout_config = OmegaConf.merge(
            config.actor_rollout_ref.rollout, {"multi_turn": {"format": "hermes"}}
        )
        self.config = config
        self.tokenizer = model.tokenizer
        self.continuous_token_builder = create_continuous_token_builder(
            model.tokenizer,
            hf_model_type=model.kind,
            chat_template_kwargs=config.data.get("apply_chat_template_kwargs", {}),
            mm_processor_kwargs={},
            processor=None,
        )


class ScriptedVerlPolicy(VerlPolicy):
    """A policy with an answer for each seed."""

    def __init__(
        self, config: DictConfig, model: Model, tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(_Loop(config, model), {}, send_seeds=False, tools=tools)
        self.answers: Mapping[int, str] = {}
        self.asked: dict[int, tuple[int, ...]] = {}
        """Seed -> the prompt that was answered."""

    def tell(self, answers: Mapping[int, str]) -> None:
        """Set the answers of the next samples, by seed; forget the prompts so far."""
        self.answers, self.asked = answers, {}

    def text(self, ids: tuple[int, ...]) -> str:
        """The text of tokens, special ones too."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    async def sample(
        self, prompt_ids: tuple[int, ...], seed: int, max_tokens: int | None = None
    ) -> Attempt:
        """The answer of that seed, with all that an engine reports."""
        self.asked[seed] = prompt_ids
        text = self.answers[seed]
        ids = (await self.encode_answer(text))[:max_tokens]
        ended = ids[-1] == self._tokenizer.eos_token_id
        steps = dict.fromkeys(("min_global_steps", "max_global_steps"), 0)
        return Attempt(prompt_ids, ids, (0.0,) * len(ids), text, ended, steps)
