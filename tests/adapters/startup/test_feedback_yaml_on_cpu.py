"""One YAML per provider: it composes, is accepted, says every option."""

import inspect
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.feedback import _PROVIDERS, make_provider, provider_names
from rltf_verl.registry import load
from tests.support.configs import composed

FOLDER = Path(__file__).parents[3] / "hydra_configs" / "rltf_verl" / "rltf" / "feedback"
OURS = {"provider", "ask", "on_error", "guard", "acknowledge_leaks"}
SETTINGS = ("teacher", "execution", "escalating", "verifier_full")
"""Of a judge, and of the verifier."""

NEW = ("shuffled", "siblings", "try_again")


def test_every_provider_has_one() -> None:
    ours = {name for name, where in _PROVIDERS.items() if where.startswith("rltf_verl.")}
    groups = {path.stem for path in FOLDER.glob("*.yaml")} - {"own", *SETTINGS}
    assert groups == ours <= set(provider_names())


@pytest.mark.parametrize("name", NEW)
def test_it_names_every_option_with_its_default_and_start_up_accepts_it(name: str) -> None:
    options = inspect.signature(load("", _PROVIDERS[name])).parameters
    block = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    assert set(block) - OURS == set(options)
    assert block["provider"] == name
    for key, option in options.items():
        assert option.default in (inspect.Parameter.empty, block[key]), key
    overrides = [
        f"rltf/feedback={name}",
        "rltf/hardware=cpu",
        "actor_rollout_ref.model.path=/nowhere",
    ]
    rltf = checked_parts(composed("rltf_sd", *overrides)).config
    assert rltf.feedback.provider.name == name


URL = ["rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1", "rltf.feedback.endpoint.model=m"]


@pytest.mark.parametrize(("group", "style"), [("judge", "hint"), ("teacher", "teacher")])
def test_the_yaml_holds_the_defaults(group: str, style: str) -> None:
    model = "actor_rollout_ref.model.path=/nowhere"
    config = composed("rltf_sd", "rltf/hardware=cpu", model, f"rltf/feedback={group}", *URL)
    provider = checked_parts(config).config.feedback.provider
    plain = make_provider(
        "judge", style=style, endpoint={"base_url": "http://127.0.0.1:9/v1", "model": "m"}
    )
    assert make_provider(provider.name, **provider.options).settings == plain.settings
    block = OmegaConf.to_container(config.rltf.feedback)
    assert block["style"] == style
    for part in ("endpoint", "limits", "price"):
        assert block[part].keys() - {"api_key"} == asdict(getattr(plain.settings, part)).keys()


@pytest.mark.parametrize(
    "word",
    [
        "rltf.feedback.endpoint.api_key=sk-proj-1a2b3c4d",
        "rltf.feedback.endpoint.api_key_env=sk-proj-1a2b3c4d",
        "rltf.feedback.endpoint.base_url=http://me:1a2b3c4d@host/v1",
        "rltf.feedback.endpoint.base_url='http://host/v1?key=1a2b3c4d'",
        "+rltf.feedback.endpoint.apikey=1a2b3c4d",
        "+rltf.feedback.endpoint.headers={Authorization: Bearer 1a2b3c4d}",
    ],
)
def test_a_key_in_the_config_is_refused_and_not_shown(word: str) -> None:
    model = "actor_rollout_ref.model.path=/nowhere"
    config = composed("rltf_sd", "rltf/hardware=cpu", model, "rltf/feedback=judge", *URL, word)
    with pytest.raises(ValueError, match=r"rltf\.feedback\.endpoint\.") as refused:
        checked_parts(config)
    assert "1a2b3c4d" not in str(refused.value)
