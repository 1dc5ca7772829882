"""The `rltf:` block: what is read, and what an unknown key says. Values that cannot work:
test_refusals.
"""

import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from rltf_verl.config import (
    AttemptConfig,
    ConfigError,
    CritiqueConfig,
    DistillConfig,
    EpisodeConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    MentionsConfig,
    NamedOptions,
    RewardConfig,
    RLTFConfig,
)
from rltf_verl.kinds import trouble

MINIMAL = {"env": {"name": "binary_matrix"}, "feedback": {"provider": "verifier"}}


def read(**block):
    return RLTFConfig.from_mapping({**MINIMAL, **block})


def test_every_block_is_read():
    config = read(
        gamma=0.5,
        episode={
            "horizon": 3,
            "context": "append",
            "branch_turn": 2,
            "branch_width": 4,
            "pair_sessions": True,
        },
        reward={"format_coef": 0.2, "intermediate": False, "turn_decay": 0.5},
        attempt={"weight": 0.5, "estimator": "ragged", "norm_by_std": True},
        distill={
            "weight": 0.1,
            "baseline": "leave_one_out",
            "restart_on_resume": True,
            "start_step": 2,
        },
        feedback_modeling={"weight": 0.2, "form": "inline", "critic": "compact", "ramp_steps": 7},
        imitate={"weight": 0.3, "source": "all"},
        critique={"weight": 0.4},
        mentions={"action": "mask", "phrases": ["as you said"]},
    )
    assert config == RLTFConfig(
        gamma=0.5,
        env=NamedOptions("binary_matrix"),
        episode=EpisodeConfig(
            horizon=3, context="append", branch_turn=2, branch_width=4, pair_sessions=True
        ),
        reward=RewardConfig(0.2, False, 0.5),
        attempt=AttemptConfig(0.5, "ragged", True),
        distill=DistillConfig(
            weight=0.1, baseline="leave_one_out", restart_on_resume=True, start_step=2
        ),
        feedback_modeling=FeedbackModelingConfig(
            weight=0.2, form="inline", critic="compact", ramp_steps=7
        ),
        imitate=ImitateConfig(weight=0.3, source="all"),
        critique=CritiqueConfig(weight=0.4),
        mentions=MentionsConfig("mask", ("as you said",)),
    )


@pytest.mark.parametrize(
    "name", ["reward", "episode", "attempt", "distill", "imitate", "critique", "mentions"]
)
def test_an_empty_block_is_the_default(name):
    assert read(**{name: None}) == read(**{name: {}}) == read()


@pytest.mark.parametrize(
    ("episode", "num"),
    [
        ({"horizon": 1}, 1),
        ({"horizon": 5}, 5),
        ({"horizon": 2, "branch_turn": 1}, 3),
        ({"horizon": 3, "branch_turn": 1, "branch_width": 4}, 9),
        ({"horizon": 3, "branch_turn": 2, "branch_width": 4}, 6),
    ],
)
def test_how_many_attempts_an_episode_can_hold(episode, num):
    assert EpisodeConfig(**episode).num_nodes == num


def test_other_keys_of_env_and_feedback_are_the_components_own_options():
    config = read(
        env={"name": "binary_matrix", "n_min": 3},
        feedback={"provider": "verifier", "level": "full", "on_error": "raise"},
    )
    assert config.env == NamedOptions("binary_matrix", {"n_min": 3})
    assert config.feedback.provider == NamedOptions("verifier", {"level": "full"})
    assert config.feedback.on_error == "raise"


def test_a_list_is_a_ramp():
    assert read(distill={"weight": [0, 0.1]}).distill.weight == (0, 0.1)
    assert read(distill={"weight": [0, 0.1]}).distill.enabled
    assert read(distill={"weight": 0.1}).distill.weight == 0.1


@pytest.mark.parametrize(
    ("weight", "enabled"),
    [(0, False), (0.1, True), ((0.0, 0.1), True), ((0.1, 0.0), True), ((0.0, 0.0), False)],
)
@pytest.mark.parametrize(
    "kind", [DistillConfig, FeedbackModelingConfig, ImitateConfig, CritiqueConfig]
)
def test_an_objective_is_on_when_it_ever_has_a_weight(kind, weight, enabled):
    assert kind(weight=weight).enabled == enabled


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"gama": 0.1}, "rltf.gama=0.1: unknown key; did you mean rltf.gamma?"),
        (
            {"episode": {"horizont": 3}},
            "rltf.episode.horizont=3: unknown key; did you mean rltf.episode.horizon?",
        ),
        (
            {"distill": {"wieght": 1}},
            "rltf.distill.wieght=1: unknown key; did you mean rltf.distill.weight?",
        ),
        (
            {"episode": {"branch_with": 3}},
            "rltf.episode.branch_with=3: unknown key; did you mean rltf.episode.branch_",
        ),
        (
            {"attempt": {"estimater": "none"}},
            "rltf.attempt.estimater=none: unknown key; did you mean rltf.attempt.",
        ),
        (
            {"imitate": {"sources": "all"}},
            "rltf.imitate.sources=all: unknown key; did you mean rltf.imitate.source?",
        ),
        (
            {"feedback_modeling": {"from": "rows"}},
            "rltf.feedback_modeling.from=rows: unknown key; did you mean rltf.f",
        ),
        (
            {"critique": {"baseline": "none"}},
            "rltf.critique.baseline=none: unknown key; known keys: weight, ",
        ),
        (
            {"mentions": {"phrase": []}},
            "rltf.mentions.phrase=[]: unknown key; did you mean rltf.mentions.phrases?",
        ),
        ({"format_coef": 0.1}, "rltf.format_coef=0.1: unknown key; known keys: "),
        ({"distil": {}}, "rltf.distil={}: unknown key; did you mean rltf.distill?"),
        ({"zzz": 1}, "rltf.zzz=1: unknown key; known keys: seed, gamma,"),
    ],
)
def test_an_unknown_key_names_the_closest_one(block, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(**block)


def test_null_and_whole_numbers_are_accepted_where_they_mean_something():
    config = read(
        gamma=1,
        episode_log={"dir": None},
        distill={"log_prob_floor": None, "ramp_steps": None, "weight": 1},
    )
    assert (config.gamma, config.distill.log_prob_floor, config.distill.weight) == (1, None, 1)


BARE = {name: getattr(typing, name) for name in ("List", "Dict", "Tuple")}
"""As older code writes them."""


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Path, "a/b"),
        (Path | None, "a/b"),
        (BARE["List"], ["a"]),
        (Sequence, ["a"]),
        (BARE["Dict"], {"a": 1}),
        (Mapping, {"a": 1}),
        (BARE["Tuple"], [1, 2]),
        (set, ["a"]),
    ],
)
def test_ordinary_annotations_of_own_classes_take_ordinary_values(hint, value):
    assert trouble(value, hint) is None
