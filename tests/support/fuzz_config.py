"""A fuzzer of the `rltf:` block: nonsense is refused in one line with its key, and nothing else
ever raises.

What is nonsense follows from the declared kind of a key (`rltf_verl.kinds`), not from what the
checks say of a value. The test is `tests/config/test_fuzz_on_cpu.py`.
"""

import copy
import dataclasses
import inspect
import random
from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.adapters.startup.files import resolve_files
from rltf_verl.config import FeedbackConfig, NamedOptions, RLTFConfig
from rltf_verl.judge.settings import Endpoint, JudgeLimits, Price
from rltf_verl.kinds import Choice, Url, hints_of, trouble
from rltf_verl.registry import load
from tests.support import configs

JUDGE = {"endpoint": {"base_url": "http://127.0.0.1:8000/v1", "model": "m"}}
ENVS = {
    "binary_matrix": "binary_matrix.env:BinaryMatrix",
    "knights_knaves": "knights_knaves.env:KnightsKnaves",
    "shortest_path": "shortest_path.env:ShortestPath",
    "math": "math.env:Math",
    "code": "code.env:Code",
    "writing": "writing.env:Writing",
    "reasoning_gym": "reasoning_gym.env:ReasoningGym",
    "reward_function": "reward_function:RewardFunction",
}
PROVIDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "verifier": ("verifier:VerifierProvider", {}),
    "judge": ("judge_provider:JudgeProvider", JUDGE),
    "policy": ("policy:PolicyProvider", {}),
    "try_again": ("sentences:TryAgainProvider", {}),
    "correctness": ("sentences:CorrectnessProvider", {}),
}
NUMBERS = [
    0,
    1,
    -1,
    2,
    0.5,
    -0.5,
    1.5,
    3,
    100,
    101,
    10**9,
    10**30,
    -(10**30),
    1e308,
    -1e308,
    float("inf"),
    -float("inf"),
    float("nan"),
]
TEXTS = [
    "",
    " ",
    "x",
    "false",
    "true",
    "null",
    "0.5",
    "1",
    "none",
    "a\nb",
    "a\x00b",
    "\ud83d",
    "\u202e",
    "x" * 5000,
    "os:system",
    "builtins:dict",
    "./nowhere.py:Mine",
    "???",
    "{}",
    "[1]",
    "é",
    "http://h/v1",
]
OTHERS: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [1, 2],
    ["a"],
    [None],
    {"a": 1},
    {"a": {"b": [1]}},
    [[1]],
    {1: 2},
]
URLS = [
    "http://h:99999/v1",
    "http://h:port/v1",
    "http://h/v1\n",
    "http://h/v1#x",
    "http://h/v1/chat/completions",
    "ftp://h",
    "http://",
    "http://[::1",
    "http://u:p@h/v1",
    "http://h/v1?k=1",
    "h/v1",
    "http://h:0/v1",
]
BODIES = [{"messages": []}, {"stream": True}, {"model": "x"}, '{"n": 2}', "{", 3, [1]]


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of the block, what must stand around it, and its declared kind."""

    path: tuple[str, ...]
    hint: Any
    around: Mapping[str, Any]

    def __str__(self) -> str:
        return "rltf." + ".".join(self.path)


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key of the block, every option of every environment, provider and judge."""
    return (*_own((), RLTFConfig), *_options())


def _own(above: tuple[str, ...], cls: type) -> Iterator[Key]:
    for name, hint in get_type_hints(cls, include_extras=True).items():
        path = (*above, name)
        if hint is NamedOptions:
            yield Key(("env", "name") if name == "env" else ("feedback", "provider"), str, {})
        elif isinstance(hint, type) and issubclass(hint, Choice):
            yield Key(path, get_type_hints(hint, include_extras=True)["name"], {})
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _own(path, hint)
        else:
            yield Key(path, hint, {})


def _options() -> Iterator[Key]:
    for name, where in ENVS.items():
        for option, hint in _arguments(f"rltf_verl.envs.{where}"):
            yield Key(("env", option), hint, {"env": {"name": name}})
    for name, (where, needed) in PROVIDERS.items():
        for option, hint in _arguments(f"rltf_verl.feedback.{where}"):
            yield Key(("feedback", option), hint, {"feedback": {"provider": name, **needed}})
    judged = {"feedback": {"provider": "judge", **JUDGE}}
    for block, cls in (("endpoint", Endpoint), ("limits", JudgeLimits), ("price", Price)):
        for option, hint in get_type_hints(cls, include_extras=True).items():
            yield Key(("feedback", block, option), Url if option == "base_url" else hint, judged)


def _arguments(where: str) -> Iterator[tuple[str, Any]]:
    factory = load("fuzz", where)
    hints = hints_of(factory)
    for option in inspect.signature(factory).parameters:
        yield option, hints.get(option, Any)


def draw(rng: random.Random, key: Key) -> Any:
    """A value of any kind, near misses of the declared one more often than others."""
    near: list[Any] = [*URLS] if key.path[-1] in ("base_url", "url") else []
    near += BODIES if key.path[-1] == "extra_body" else []
    for kind in get_args(key.hint) if get_origin(key.hint) in (Union, UnionType) else (key.hint,):
        if get_origin(kind) is Literal:
            word = rng.choice(get_args(kind))
            near += [word, word[:-1], word + "x", word.upper()]
        for mark in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
            ends = [getattr(mark, end, None) for end in ("least", "most", "above", "below")]
            near += [
                end + step for end in ends if end is not None for step in (-1, 0, 1, -0.001, 0.001)
            ]
    pool: list[Any] = near if near and rng.random() < 0.5 else rng.choice([NUMBERS, TEXTS, OTHERS])
    return copy.deepcopy(rng.choice(pool))


def misspelt(rng: random.Random, name: str) -> str:
    """A letter less, more or swapped."""
    at = rng.randrange(len(name))
    return rng.choice(
        [name[:at] + name[at + 1 :], name[:at] + "x" + name[at:], name.upper(), f"{name} "]
    )


def with_value(block: dict[str, Any], key: Key, name: str, value: Any) -> dict[str, Any]:
    """The block with one more setting."""
    changed = copy.deepcopy(block)
    for section, needed in key.around.items():
        kept = {
            k: v
            for k, v in changed[section].items()
            if k in {f.name for f in dataclasses.fields(FeedbackConfig)}
        }
        changed[section] = {
            **(kept if section == "feedback" else {}),
            **copy.deepcopy(dict(needed)),
        }
    inner = changed
    for part in key.path[:-1]:
        inner = inner.setdefault(part, {})
    inner[name] = value
    return changed


def fault_of(
    config: DictConfig, block: Mapping[str, Any], keys: list[str], nonsense: bool
) -> str | None:
    """What is wrong with how the block was received: None if it was accepted, or refused well."""
    try:
        config.rltf = OmegaConf.create(dict(block))
    except Exception:  # no YAML can say it
        return None
    try:
        resolve_files(config)
        checked_parts(config)
    except ValueError as error:
        text = str(error)
        if len(text.splitlines()) != 1 or len(text) > 1500:
            return f"not one line: {text[:300]!r}"
        return None if any(key in text for key in keys) else f"names none of {keys}: {text[:300]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "nonsense was accepted" if nonsense else None


def fuzz(config: DictConfig, num: int, seed: int) -> tuple[list[str], int]:
    """The faults of `num` random blocks, and how many of the blocks were nonsense by
    declaration.
    """
    rng, keys, faults, num_nonsense = random.Random(seed), all_keys(), [], 0
    base: Any = OmegaConf.to_container(config.rltf, resolve=True)
    for i in range(num):
        block, settings, nonsense = base, {}, False
        for key in (keys[i % len(keys)], *rng.choices(keys, k=rng.choice([0, 0, 0, 1, 2]))):
            wrong_name = rng.random() < 0.1
            name = misspelt(rng, key.path[-1]) if wrong_name else key.path[-1]
            place = "rltf." + ".".join((*key.path[:-1], name))
            if settings and (key.around or str(key) in settings):
                continue  # it would take away what was set before
            value = draw(rng, key)
            try:
                block = with_value(block, key, name, value)
            except AttributeError:  # below a value that is no block
                continue
            settings[place] = value
            nonsense |= wrong_name or trouble(value, key.hint) is not None
        num_nonsense += nonsense
        # what stands beside a value may be refused before it: then that key is named
        keys_named = [*settings] if len(settings) == 1 and nonsense else ["rltf."]
        fault = fault_of(config, block, keys_named, nonsense)
        if fault is not None:
            faults.append(f"{str(settings)[:400]} -> {fault}")
    return faults, num_nonsense


def composed() -> DictConfig:
    """A preset as verl composes it; resolved once, since every block is read beside the same
    settings of verl.
    """
    config = configs.composed(
        "rltf_sd", "rltf/hardware=cpu", "actor_rollout_ref.model.path=/nowhere"
    )
    OmegaConf.set_struct(config, False)
    return config
