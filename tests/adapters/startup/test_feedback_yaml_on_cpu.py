"""One YAML per provider: it composes, is accepted, says every option, and has a comment above each
key.
"""

import inspect
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from rltf_verl import feedback
from rltf_verl.adapters.startup.checks import check_config
from rltf_verl.config import ConfigError, RLTFConfig
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


@pytest.mark.parametrize("name", NEW)
def test_a_comment_stands_above_each_key(name: str) -> None:
    lines = text_of(name).splitlines()
    for above, line in pairwise(lines):
        if (
            line.strip()
            and not line.strip().startswith(("#", "-"))
            and line.strip() != "guard:"
            and ":" in line
        ):
            assert above.strip().startswith(("#", "-")) or line.startswith("    "), line


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


WORKERS = "actor_rollout_ref.rollout.agent.num_workers=8"
ALONE = {
    "a tree": (
        ["rltf.episode.horizon=3", "rltf.episode.branch_turn=1"],
        "rltf.episode.branch_turn=1: episodes of provider {} wait for each other turn by turn, ",
    ),
    "problems one by one": (
        ["trainer.v1.trainer_mode=rltf_colocate_async"],
        (
            "rltf.feedback.provider={}: with trainer.v1.trainer_mode=rltf_colocate_async problems"
            " are played one by one; "
        ),
    ),
    "one problem per worker": (
        ["data.train_batch_size=8", WORKERS],
        f"data.train_batch_size=8: with {WORKERS} a worker plays one problem alone, ",
    ),
    "one problem for the last worker": (
        ["data.train_batch_size=9", WORKERS],
        f"data.train_batch_size=9: with {WORKERS} a worker plays one problem alone, ",
    ),
    "further problems": (
        ["rltf.refill_rounds=1"],
        (
            "rltf.refill_rounds=1: further problems are played alone, and provider {} needs another"
            " one; "
        ),
    ),
}


CASES = [(case, name) for case in ALONE for name in ("shuffled", "marginal")]


@pytest.mark.parametrize(("case", "name"), [*CASES, ("a tree", "siblings")])
def test_a_control_is_refused_where_no_other_problem_is_played(case: str, name: str) -> None:
    overrides, message = ALONE[case]
    config = composed(
        "rltf_sd",
        f"rltf/feedback={name}",
        "rltf/hardware=cpu",
        "actor_rollout_ref.model.path=x",
        *overrides,
    )
    with pytest.raises(ConfigError, match="^" + re.escape(message.format(name))):
        check_config(config)
