"""One YAML per provider: it composes, is accepted, says every option."""

import inspect
from pathlib import Path

import pytest
import yaml

from rltf_verl import feedback
from rltf_verl.adapters.startup.checks import check_config
from rltf_verl.config import RLTFConfig
from rltf_verl.feedback import provider_names
from tests.support.configs import composed

FOLDER = Path(__file__).parents[3] / "hydra_configs" / "rltf_verl" / "rltf" / "feedback"
OURS = {"provider", "ask", "ask_wait_s", "on_error", "guard", "acknowledge_leaks", "record_dir"}
SETTINGS = ("teacher", "execution", "escalating", "verifier_full")
"""Of a judge, and of the verifier."""

NEW = ("marginal", "replay", "shuffled", "siblings", "try_again")


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text("utf-8")


def test_every_provider_has_one() -> None:
    ours = {name for name, where in feedback._PROVIDERS.items() if where.startswith("rltf_verl.")}
    groups = {path.stem for path in FOLDER.glob("*.yaml")} - {"own", *SETTINGS}
    assert groups == ours <= set(provider_names())


@pytest.mark.parametrize("name", NEW)
def test_it_names_every_option_with_its_default(name: str) -> None:
    module, _, attribute = feedback._PROVIDERS[name].partition(":")
    factory = getattr(__import__(module, fromlist=[attribute]), attribute)
    options, block = inspect.signature(factory).parameters, yaml.safe_load(text_of(name))
    assert set(block) - OURS == set(options)
    assert block["provider"] == name
    for key, option in options.items():
        assert option.default in (inspect.Parameter.empty, block[key]), key


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("record")
    line = (
        '{"key": "k", "settings": "s", "seed": 1, "time": 1.0, "provider": "judge", "text": "x"}\n'
    )
    (folder / "feedback.1.a.jsonl").write_text(line)
    return folder


@pytest.mark.parametrize("name", NEW)
def test_start_up_accepts_it(name: str, record: Path) -> None:
    overrides = [
        f"rltf/feedback={name}",
        "rltf/hardware=cpu",
        "actor_rollout_ref.model.path=/nowhere",
    ]
    if name == "replay":
        overrides.append(f"rltf.feedback.folder={record}")
    config = composed("rltf_sd", *overrides)
    rltf = check_config(config)
    assert isinstance(rltf, RLTFConfig)
    assert rltf.feedback.provider.name == name
