"""The YAML of the judge: every key is one that the provider takes, with the provider's own
default.
"""

from dataclasses import asdict

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.startup import checks
from rltf_verl.feedback import make_provider
from tests.support.configs import composed

URL = ["rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1", "rltf.feedback.endpoint.model=m"]


@pytest.mark.parametrize(("group", "style"), [("judge", "hint"), ("teacher", "teacher")])
def test_the_yaml_holds_the_defaults(group: str, style: str) -> None:
    model = "actor_rollout_ref.model.path=/nowhere"
    config = composed("rltf_sd", "rltf/hardware=cpu", model, f"rltf/feedback={group}", *URL)
    provider = checks.check_config(config).feedback.provider
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
        checks.check_config(config)
    assert "1a2b3c4d" not in str(refused.value)
