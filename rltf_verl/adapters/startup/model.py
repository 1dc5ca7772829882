"""Loads the config and tokenizer of a model: a fault costs seconds here, minutes in Ray."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from omegaconf import DictConfig, OmegaConf
from verl.utils.tokenizer import hf_tokenizer

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.registry import described
from rltf_verl.sampler import ROLLOUT_NAME

T = TypeVar("T")
MODEL = "actor_rollout_ref.model"
WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(frozen=True)
class Model:
    """A model without its weights."""

    path: str
    tokenizer: Any
    """With the chat template that the run uses."""
    kind: str
    """`model_type` of its config."""
    context: int | None
    """Most tokens that it can read; None: its config does not say."""
    text: Any
    """Its config, or that of its text part."""


def load_model(config: DictConfig) -> Model:
    """The model's config and tokenizer, from where verl will load them. Read once per process.

    Raises:
        ConfigError: names the key, the path and what to do.
    """
    model = config.actor_rollout_ref.model
    path = model.get("path")
    if path in (None, "", "???"):
        raise ConfigError(
            Finding(
                f"{MODEL}.path",
                path,
                "no model is named",
                "set it to a folder, or to a name on the Hugging Face hub such as Qwen/Qwen3-0.6B",
            )
        )
    template = model.get("custom_chat_template")
    places = [str(model.get(key) or path) for key in ("hf_config_path", "tokenizer_path")]
    trust = bool(model.get("trust_remote_code", False))
    return _load_cached(str(path), *places, None if template is None else str(template), trust)


def check_context(config: DictConfig, model: Model) -> Iterator[Finding]:
    """A model that cannot read a whole prompt and a whole answer."""
    prompt, answer = int(config.data.max_prompt_length), int(config.data.max_response_length)
    given = OmegaConf.select(config, f"{MODEL}.override_config.max_position_embeddings")
    context = model.context if given is None else int(given)
    if context is not None and context < prompt + answer:
        yield Finding(
            "data.max_prompt_length",
            prompt,
            f"with data.max_response_length={answer} together {prompt + answer} tokens, and"
            f" {MODEL}.path={model.path} reads {context} (max_position_embeddings)",
            "lower them, or take a model that reads more",
        )


def check_attention(config: DictConfig, model: Model) -> Iterator[Finding]:
    """A model that the rollout `transformers`, where it is used, cannot sample from."""
    from rltf_verl.sampler.models import trouble_of

    if config.actor_rollout_ref.rollout.name != ROLLOUT_NAME:
        return
    text = copy(model.text)
    for key, value in (OmegaConf.select(config, f"{MODEL}.override_config") or {}).items():
        setattr(text, key, value)  # as verl does
    trouble = trouble_of(text)
    if trouble is not None:
        yield Finding(f"{MODEL}.path", model.path, trouble, "")


def is_elsewhere(path: str) -> bool:
    """True if verl would copy the model from another machine's file system."""
    return "://" in path


@cache
def _load_cached(
    path: str, config_path: str, tokenizer_path: str, template: str | None, trust: bool
) -> Model:
    missing = _folder_trouble(path)
    if missing is not None:
        raise ConfigError(Finding(f"{MODEL}.path", path, *missing))
    from transformers import AutoConfig

    code = {"trust_remote_code": trust, "local_files_only": not _hub_is_there()}
    config: Any = _from(
        f"{MODEL}.path", config_path, lambda: AutoConfig.from_pretrained(config_path, **code)
    )
    key = f"{MODEL}.path" if tokenizer_path == path else f"{MODEL}.tokenizer_path"
    tokenizer = _from(key, tokenizer_path, lambda: hf_tokenizer(tokenizer_path, **code))
    tokenizer.chat_template = template or tokenizer.chat_template
    if not tokenizer.chat_template:
        raise ConfigError(
            Finding(
                key,
                tokenizer_path,
                "its tokenizer has no chat template, as is usual for base models",
                "take the model's instruct version, or put a chat_template.jinja into its folder",
            )
        )
    if tokenizer.eos_token_id is None:
        raise ConfigError(
            Finding(
                key,
                tokenizer_path,
                "its tokenizer has no end token (eos_token), so no answer would ever end",
                "set one in its tokenizer_config.json",
            )
        )
    from rltf_verl.sampler.models import context_of

    text = config.get_text_config()
    # vLLM takes any length then
    unbounded = os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    context = None if unbounded else context_of(text)
    return Model(path, tokenizer, str(config.model_type), context, text)


def _folder_trouble(path: str) -> tuple[str, str] | None:
    """Why there is no model, and the fix."""
    folder = Path(path)
    if folder.is_file():
        return "a file", "name the folder that it is in"
    if not folder.is_dir():
        if path.startswith("~") and folder.expanduser().is_dir():
            return "verl does not expand ~", f"write {folder.expanduser()}"
        if path.startswith(("/", ".", "~")):
            return (
                f"no such folder, seen from {Path.cwd()}",
                "name a folder with a model in Hugging Face form, or a name on the hub",
            )
    elif not (folder / "config.json").is_file():
        return (
            "no config.json in this folder",
            "name one with a model in Hugging Face form (a checkpoint of verl becomes one by"
            " `python -m verl.model_merger merge`)",
        )
    elif not any(next(folder.glob(form), None) for form in WEIGHTS):
        return f"no weights in this folder ({' or '.join(WEIGHTS)})", "copy them there"
    return None


def _from(key: str, path: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except Exception as error:  # transformers and the hub raise many kinds
        raise ConfigError(Finding(key, path, *_trouble(path, error))) from error


def _trouble(path: str, error: Exception) -> tuple[str, str]:
    """Why it cannot be loaded, and the fix."""
    if Path(path).is_dir():
        return f"cannot be loaded ({described(error)})", "copy the model's missing files there"
    text = str(error).lower()
    if "gated" in text or "restricted" in text:
        return (
            "is gated on the Hugging Face hub",
            f"accept its licence at https://huggingface.co/{path} and log in with `hf auth login`",
        )
    if "connect" in text or "offline" in text:
        return (
            "no such folder here, and the Hugging Face hub cannot be reached",
            f"name a folder, or fetch it where there is a network with `hf download {path}`",
        )
    return (
        f"neither a folder, seen from {Path.cwd()}, nor to be had from the Hugging Face hub"
        f" ({described(error)})",
        "correct the name, or log in with `hf auth login` if it is private",
    )


def _hub_is_there() -> bool:
    """True if the hub's name resolves here: without a network the hub's client tries for half a
    minute.
    """
    # behind a proxy the hub's name need not resolve here
    if getproxies():
        return True
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True
