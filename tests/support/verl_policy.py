"""`VerlPolicy` with a real tokenizer and verl's real token builder, without a rollout engine."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omegaconf import OmegaConf
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from rltf_verl.adapters.rollout.verl_policy import VerlPolicy

POLICY = Path(__file__).parents[2] / "recipes" / "demo" / "policy"
ROLLOUT = {
    "prompt_length": 64,
    "response_length": 30,
    "name": "transformers",
    "full_determinism": False,
}


def verl_policy(
    tokenizer: Any,
    builder: Any = None,
    *,
    engine: Any = None,
    params: dict[str, Any] | None = None,
    model: Path = POLICY,
    send_seeds: bool = True,
    **rollout: Any,
) -> VerlPolicy:
    """A policy of fakes and of verl's own parts.

    Args:
        tokenizer: of the policy.
        builder: of prompts; None: verl's for the tokenizer.
        engine: answers.
        params: of sampling.
        model: its folder, with `generation_config.json`.
        send_seeds: as of `VerlPolicy`.
        rollout: settings that differ from `ROLLOUT`.
    """
    block = {"path": str(model), "hf_config_path": None}
    loop: Any = SimpleNamespace(
        tokenizer=tokenizer,
        rollout_config=SimpleNamespace(**{**ROLLOUT, **rollout}),
        config=OmegaConf.create({"actor_rollout_ref": {"model": block}}),
        continuous_token_builder=builder
        or create_continuous_token_builder(tokenizer=tokenizer, processor=None),
        server_manager=engine,
    )
    return VerlPolicy(loop, {"temperature": 1.0, **(params or {})}, "uid_3", send_seeds=send_seeds)
