"""The overrides of docs/feedback.md that set a judge compose and pass the start-up checks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from omegaconf import DictConfig

from rltf_verl.adapters.startup.checks import check_config
from tests.support.configs import composed

TEXT = (Path(__file__).parents[2] / "docs" / "feedback.md").read_text("utf-8")
ENDPOINT = ("endpoint.base_url=http://127.0.0.1:8000/v1", "endpoint.model=m")
JUDGE = ("rltf/feedback=judge", *(f"rltf.feedback.{word}" for word in ENDPOINT))


def checked(*words: str) -> DictConfig:
    config = composed("rltf_sd", "actor_rollout_ref.model.path=m", *words)
    check_config(config)
    return config


@pytest.mark.parametrize(
    ("field", "value"),
    [("chat_template_kwargs.enable_thinking", False), ("max_completion_tokens", 1024)],
)
def test_fields_of_a_request(field: str, value: object) -> None:
    (word,) = re.findall(rf"`(\+rltf\.feedback\.endpoint\.extra_body\.{field}=\S+?)`", TEXT)
    body = checked(*JUDGE, word).rltf.feedback.endpoint.extra_body
    for key in field.split("."):
        body = body[key]
    assert body == value


@pytest.mark.parametrize("control", ["shuffled", "marginal"])
def test_the_control_of_a_judge(control: str) -> None:
    (block,) = re.findall(r"^rltf/feedback=shuffled (.*?)\n```", TEXT, re.DOTALL | re.MULTILINE)
    words = block.replace("\\\n", " ").replace("…", "http://127.0.0.1:8000/v1")
    inner = checked(f"rltf/feedback={control}", *shlex.split(words)).rltf.feedback.inner
    assert (inner.provider, set(inner.endpoint)) == ("judge", {"base_url", "model"})
