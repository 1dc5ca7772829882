"""A refusal has the key that the user set, also where it is about a setting of a preset."""

import copy
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf, open_dict

from rltf_verl.adapters.startup.checks import check_driver, refusals
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.findings import Finding
from rltf_verl.kinds import trouble
from rltf_verl.tools.plan.inputs import inspect_run
from tests.support import configs
from tests.support.fuzz_config import Key, all_keys

SHAPED = "rltf.distill.loss=ppo: it clips a ratio that is always 1"


def values_of(key: Key) -> Iterator[Any]:
    kinds = (key.hint, *get_args(key.hint))
    words = [w for kind in kinds if get_origin(kind) is Literal for w in get_args(kind)]
    return (v for v in (*words, 0, 1) if trouble(v, key.hint) is None)


def refusal_of(block: dict[str, Any], key: Key, value: Any) -> Finding | None:
    changed = copy.deepcopy(block)
    inner = changed
    for part in key.path[:-1]:
        inner = inner.setdefault(part, {})
    inner[key.path[-1]] = value
    try:
        RLTFConfig.from_mapping(changed)
    except ConfigError as error:
        return error.finding
    return None


METHODS = ("echo", "grpo_single", "guided", "raft", "teacher/opsd", "teacher/rlcsd")


@pytest.mark.parametrize("method", METHODS)
def test_whatever_is_set_beside_a_method(method: str) -> None:
    config = configs.composed("rltf", f"rltf/method={method}")
    block: Any = OmegaConf.to_container(config.rltf, resolve=True)
    others = 0
    for key in all_keys():
        for value in () if key.around or key.path == ("env", "name") else values_of(key):
            finding = refusal_of(block, key, value)
            if finding is not None:
                line = str(finding.with_chosen_key([f"{key}={value}"]))
                assert line.startswith(f"{key}={value}: "), (value, str(finding))
                others += finding.key != str(key)
    assert others, "refused for a setting of the preset"


def test_the_start_up_and_the_plan_say_it() -> None:
    words = ("rltf/method=guided", "rltf/hardware=cpu", "rltf.distill.reference=current")
    config = configs.composed("rltf", *words, "actor_rollout_ref.model.path=/nowhere")
    facts = {"job": {"config_name": "rltf"}, "runtime": {"choices": {"rltf/method": "guided"}}}
    hydra = OmegaConf.create({"hydra": {"overrides": {"task": list(words)}, **facts}})
    before = HydraConfig.instance().cfg
    try:
        HydraConfig.instance().cfg = hydra
        with pytest.raises(ConfigError) as refused:
            check_driver(copy.deepcopy(config))
    finally:
        HydraConfig.instance().cfg = before
    lines = [str(refused.value), *map(str, inspect_run(config, chosen=words).refusals)]
    both = f"rltf.distill.reference=current: {SHAPED}"
    assert sum(line.startswith(both) for line in lines) == 2, lines


def test_a_key_of_the_users_own_stays() -> None:
    finding = Finding("rltf.seed", None, "rltf.gamma=0 needs it", "set it to a number")
    assert finding.with_chosen_key(["rltf.seed=null", "rltf.gamma=0"]) == finding
    assert finding.with_chosen_key(["rltf/method=sd"]) == finding
    line = Finding("", None, "rltf.gamma=0: a line that names its key", "")
    assert line.with_chosen_key(["rltf.gamma=0"]) == line
    assert str(finding.with_chosen_key(["+rltf.gamma=0"])) == (
        "rltf.gamma=0: rltf.seed=None: rltf.gamma=0 needs it; set rltf.seed to a number"
    )


@pytest.mark.parametrize("key", ["rltf.env", "rltf.teacher", "rltf.episode", "rltf.schedule"])
@pytest.mark.parametrize("value", [[], [1], 3])
def test_a_value_in_the_place_of_a_block(key: str, value: Any) -> None:
    config = configs.composed("rltf_sd", "actor_rollout_ref.model.path=/nowhere")
    with open_dict(config):
        OmegaConf.update(config, key, value, merge=False)
    assert str(next(refusals(config))) == f"{key}={value}: is a block of keys, not a value"
    assert inspect_run(config).parts is None
