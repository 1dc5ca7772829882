"""The `rltf:` block: what is read, and the message for everything that cannot work."""

import re

import pytest

from rltf_verl.config import ConfigError, DistillConfig, EpisodeConfig, FeedbackConfig, NamedOptions, RLTFConfig

MINIMAL = {"env": {"name": "binary_matrix"}, "feedback": {"provider": "verifier"}}


def read(**block):
    return RLTFConfig.from_mapping({**MINIMAL, **block})


def test_an_almost_empty_block_has_the_papers_defaults():
    config = read()
    assert (config.gamma, config.format_coef, config.updates_per_batch) == (0.1, 0.1, 1)
    assert config.episode == EpisodeConfig(horizon=2, stop_when_solved_train=True, stop_when_solved_val=False)
    assert config.feedback == FeedbackConfig(NamedOptions("verifier"), "stop_session")
    assert (config.distill.baseline, config.distill.reference, config.distill.log_prob_floor) == (
        "first_turn", "current", -5.0,
    )  # fmt: skip
    assert not config.distill.enabled


def test_other_keys_of_env_and_feedback_are_the_components_own_options():
    config = read(
        env={"name": "binary_matrix", "n_min": 3},
        feedback={"provider": "verifier", "level": "full", "on_error": "raise"},
    )
    assert config.env == NamedOptions("binary_matrix", {"n_min": 3})
    assert config.feedback.provider == NamedOptions("verifier", {"level": "full"})
    assert config.feedback.on_error == "raise"


def test_the_block_that_is_read_is_not_changed():
    block = {**MINIMAL, "distill": {"weight": [0, 0.1]}}
    RLTFConfig.from_mapping(block)
    assert block == {**MINIMAL, "distill": {"weight": [0, 0.1]}}


def test_a_list_is_a_ramp():
    assert read(distill={"weight": [0, 0.1]}).distill.weight == (0, 0.1)
    assert read(distill={"weight": [0, 0.1]}).distill.enabled
    assert read(distill={"weight": 0.1}).distill.weight == 0.1


@pytest.mark.parametrize(
    ("distill", "enabled", "needs"),
    [
        (DistillConfig(weight=0.0, reference="sampler"), False, False),
        (DistillConfig(weight=0.1), True, False),
        (DistillConfig(weight=0.1, reference="sampler"), True, True),
    ],
)
def test_what_distillation_needs(distill, enabled, needs):
    assert (distill.enabled, distill.needs_sampler_log_probs) == (enabled, needs)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"gama": 0.1}, "rltf.gama=0.1: unknown key; did you mean rltf.gamma?"),
        ({"episode": {"horizont": 3}}, "rltf.episode.horizont=3: unknown key; did you mean rltf.episode.horizon?"),
        ({"distill": {"wieght": 1}}, "rltf.distill.wieght=1: unknown key; did you mean rltf.distill.weight?"),
        ({"distil": {}}, "rltf.distil={}: unknown key; did you mean rltf.distill?"),
        ({"zzz": 1}, "rltf.zzz=1: unknown key; known keys: seed, gamma,"),
    ],
)
def test_an_unknown_key_names_the_closest_one(block, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(**block)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"gamma": 1.5}, "rltf.gamma=1.5: must be in [0, 1]"),
        ({"gamma": -0.1}, "rltf.gamma=-0.1: must be in [0, 1]"),
        ({"gamma": float("nan")}, "rltf.gamma=nan: must be in [0, 1]"),
        ({"updates_per_batch": 0}, "rltf.updates_per_batch=0: must be at least 1"),
        ({"poll_interval_s": 0}, "rltf.poll_interval_s=0: must be positive (seconds)"),
        ({"episode": {"horizon": 0}}, "rltf.episode.horizon=0: must be at least 1"),
        (
            {"episode": {"horizon": 1}, "distill": {"weight": 0.1}},
            "rltf.episode.horizon=1: distillation needs a second turn; set it to 2 or more, or rltf.distill.weight=0",
        ),
        ({"env": {}}, "rltf.env.name=None: must name one"),
        ({"env": None}, "rltf.env.name=None: must name one"),
        ({"feedback": {"level": "full"}}, "rltf.feedback.provider=None: must name one"),
        (
            {"feedback": {"provider": "verifier", "on_error": "ignore"}},
            "rltf.feedback.on_error=ignore: must be one of stop_session, correctness, raise",
        ),
        (
            {"distill": {"baseline": "third_turn"}},
            "rltf.distill.baseline=third_turn: must be one of first_turn, second_turn",
        ),
        ({"distill": {"reference": "new"}}, "rltf.distill.reference=new: must be one of current, old, sampler"),
        ({"distill": {"loss": "mse"}}, "rltf.distill.loss=mse: must be one of importance_sampling, ppo, cispo"),
        (
            {"distill": {"loss": "ppo"}},
            "rltf.distill.loss=ppo: clips a ratio that is always 1 with rltf.distill.reference=current; "
            "set reference to old or sampler",
        ),
        (
            {"distill": {"clip_low": 1.1}},
            "rltf.distill.clip_low=1.1: need 0 < clip_low <= 1 <= clip_high, clip_high is 1.2",
        ),
        (
            {"distill": {"clip_high": 0.9}},
            "rltf.distill.clip_low=0.8: need 0 < clip_low <= 1 <= clip_high, clip_high is 0.9",
        ),
        ({"distill": {"start_step": -1}}, "rltf.distill.start_step=-1: must not be negative"),
        ({"distill": {"start_step": 5, "ramp_steps": 5}}, "rltf.distill.ramp_steps=5: the ramp ends before it starts;"),
        ({"distill": {"weight": -0.1}}, "rltf.distill.weight=-0.1: must not be negative; 0 switches it off"),
        ({"distill": {"weight": [0.1, -0.1]}}, "rltf.distill.weight=(0.1, -0.1): must not be negative"),
        ({"distill": {"log_prob_floor": 5.0}}, "rltf.distill.log_prob_floor=5.0: is a log-probability,"),
    ],
)
def test_a_value_that_cannot_work_names_key_value_and_fix(block, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(**block)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"gamma": "high"}, "rltf.gamma='high': must be a number"),
        ({"gamma": None}, "rltf.gamma=None: must be a number"),
        ({"gamma": True}, "rltf.gamma=True: must be a number"),
        ({"seed": 1.5}, "rltf.seed=1.5: must be a whole number"),
        ({"episode_log_dir": 3}, "rltf.episode_log_dir=3: must be text or null"),
        ({"episode": {"horizon": "two"}}, "rltf.episode.horizon='two': must be a whole number"),
        ({"episode": {"stop_when_solved_val": "no"}}, "rltf.episode.stop_when_solved_val='no': must be true or false"),
        ({"distill": {"ramp_steps": "all"}}, "rltf.distill.ramp_steps='all': must be a whole number or null"),
        (
            {"distill": {"weight": [0, 1, 2]}},
            "rltf.distill.weight=(0, 1, 2): must be a number or [start, end], two numbers",
        ),
        (
            {"distill": {"weight": [0, "1"]}},
            "rltf.distill.weight=(0, '1'): must be a number or [start, end], two numbers",
        ),
        ({"env": "binary_matrix"}, "rltf.env=binary_matrix: is a block of keys, not a value"),
        ({"episode": 2}, "rltf.episode=2: is a block of keys, not a value"),
    ],
)
def test_a_value_of_another_kind_says_what_it_must_be(block, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(**block)


def test_null_and_whole_numbers_are_accepted_where_they_mean_something():
    config = read(gamma=1, episode_log_dir=None, distill={"log_prob_floor": None, "ramp_steps": None, "weight": 1})
    assert (config.gamma, config.distill.log_prob_floor, config.distill.weight) == (1, None, 1)
