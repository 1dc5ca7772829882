"""The `rltf:` block: what is read, what an unknown key says, and the message for every value that
cannot work: it names the key, the value and the fix.
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
    ScheduleConfig,
)
from rltf_verl.config.rules import EXPERIMENTAL, experimental, unread
from rltf_verl.config.teacher import Gate
from rltf_verl.envs import env_names
from rltf_verl.feedback import provider_names
from rltf_verl.kinds import trouble
from rltf_verl.objectives import Method
from rltf_verl.prompts import template_names


def read(**block):
    given = {"env": {"name": "binary_matrix"}, "feedback": {"provider": "verifier"}, **block}
    return RLTFConfig.from_mapping(given)


def test_every_block_is_read():
    assert read(
        gamma=0.5,
        episode={
            "horizon": 3,
            "context": "append",
            "pair_sessions": True,
        },
        reward={"format_coef": 0.2, "intermediate": False, "turn_decay": 0.5},
        attempt={"weight": 0.5, "estimator": "ragged", "norm_by_std": True},
        schedule={"restart_on_resume": True, "start_step": 2, "ramp_steps": 7},
        distill={"weight": [0, 0.1], "baseline": "leave_one_out"},
        feedback_modeling={"weight": 0.2, "form": "inline", "critic": "compact"},
        imitate={"weight": 0.3, "source": "all"},
        critique={"weight": 0.4},
        mentions={"action": "mask", "phrases": ["as you said"]},
    ) == RLTFConfig(
        gamma=0.5,
        env=NamedOptions("binary_matrix"),
        episode=EpisodeConfig(horizon=3, context="append", pair_sessions=True),
        reward=RewardConfig(0.2, False, 0.5),
        attempt=AttemptConfig(0.5, "ragged", True),
        schedule=ScheduleConfig(start_step=2, ramp_steps=7, restart_on_resume=True),
        distill=DistillConfig(weight=(0, 0.1), baseline="leave_one_out"),
        feedback_modeling=FeedbackModelingConfig(weight=0.2, form="inline", critic="compact"),
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
    ("weight", "enabled"),
    [(0, False), (0.1, True), ((0.0, 0.1), True), ((0.1, 0.0), True), ((0.0, 0.0), False)],
)
@pytest.mark.parametrize(
    "kind", [DistillConfig, FeedbackModelingConfig, ImitateConfig, CritiqueConfig]
)
def test_an_objective_is_on_when_it_ever_has_a_weight(kind, weight, enabled):
    assert kind(weight=weight).enabled == enabled


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


@pytest.mark.parametrize(
    ("block", "message"),
    [
        # unknown keys
        ({"gama": 0.1}, "rltf.gama=0.1: unknown key; did you mean rltf.gamma?"),
        (
            {"episode": {"horizont": 3}},
            "rltf.episode.horizont=3: unknown key; did you mean rltf.episode.horizon?",
        ),
        (
            {"episode": {"branch_turn": 1}},
            "rltf.episode.branch_turn=1: unknown key; known keys: horizon,",
        ),
        (
            {"critique": {"baseline": "none"}},
            "rltf.critique.baseline=none: unknown key; known keys: weight",
        ),
        (
            {"episode": {"ends": {"lenght": "zero"}}},
            "rltf.episode.ends.lenght=zero: unknown key; did you mean rltf.episode.ends.length?",
        ),
        ({"format_coef": 0.1}, "rltf.format_coef=0.1: unknown key; known keys: "),
        ({"distil": {}}, "rltf.distil={}: unknown key; did you mean rltf.distill?"),
        ({"zzz": 1}, "rltf.zzz=1: unknown key; known keys: seed, gamma,"),
        # values out of range, and settings that contradict each other
        ({"gamma": 1.5}, "rltf.gamma=1.5: must be in [0, 1]"),
        ({"gamma": -0.1}, "rltf.gamma=-0.1: must be in [0, 1]"),
        ({"gamma": float("nan")}, "rltf.gamma=nan: must be in [0, 1]"),
        ({"updates_per_batch": 0}, "rltf.updates_per_batch=0: must be at least 1"),
        ({"distill": {"floor": "sof"}}, "rltf.distill.floor=sof: must be one of hard, soft"),
        (
            {"logit_distill": {"weight": 1.0, "ratio_clip": 0.5}},
            "rltf.logit_distill.ratio_clip=0.5: must be at least 1",
        ),
        (
            {"episode": {"val_feedback_every": 10**9}},
            "rltf.episode.val_feedback_every=1000000000: must be in [1, 1000]",
        ),
        (
            {"episode": {"ends": {"length": "half"}}},
            "rltf.episode.ends.length=half: must be one of grade, zero",
        ),
        ({"episode": {"ends": 3}}, "rltf.episode.ends=3: must be a block"),
        ({"episode": {"horizon": 0}}, "rltf.episode.horizon=0: must be in [1, 100]"),
        (
            {"episode": {"horizon": 1}, "distill": {"weight": 0.1}},
            "rltf.episode.horizon=1: distill",
        ),
        (
            {"reward": {"format_coef": -0.1}},
            "rltf.reward.format_coef=-0.1: must be at least 0",
        ),
        (
            {"reward": {"turn_decay": 0}},
            "rltf.reward.turn_decay=0: must be in (0, 1]",
        ),
        (
            {"episode": {"context": "grow"}},
            "rltf.episode.context=grow: must be one of fresh, append",
        ),
        (
            {"attempt": {"estimator": "mean"}},
            (
                "rltf.attempt.estimator=mean: must be one of group_mean, leave_one_out, ragged,"
                " first_turn, joined, none"
            ),
        ),
        ({"attempt": {"turns": "last"}}, "rltf.attempt.turns=last: must be one of all, first"),
        (
            {
                "attempt": {"turns": "first"},
                "episode": {"context": "append"},
                "feedback_modeling": {"weight": 0.1, "form": "inline"},
            },
            "rltf.attempt.turns=first: ",
        ),
        (
            {
                "attempt": {"turns": "first"},
                "logit_distill": {"weight": 1.0},
                "teacher": {"turns": "all"},
            },
            "rltf.attempt.turns=first: ",
        ),
        ({"teacher": {"reads": "book"}}, "rltf.teacher.reads=book: must be one of feedback, "),
        ({"teacher": {"reads": ["book"]}}, "rltf.teacher.reads=['book']: must "),
        ({"teacher": {"reads": []}}, "rltf.teacher.reads=[]: "),
        ({"teacher": {"turns": 2}}, "rltf.teacher.turns=2: must be one of first, all, last"),
        (
            {"teacher": {"right": True}, "logit_distill": {"weight": 1.0}},
            "rltf.teacher.right=True: ",
        ),
        (
            {"attempt": {"weight": -1}},
            "rltf.attempt.weight=-1: must be at least 0",
        ),
        (
            {"attempt": {"weight": 0}},
            "rltf.attempt.weight=0: ",
        ),
        (
            {"attempt": {"weight": 0}, "distill": {"weight": [0, 0]}},
            "rltf.attempt.weight=0: ",
        ),
        (
            {"feedback_modeling": {"form": "row"}},
            "rltf.feedback_modeling.form=row: must be one of rows, inline",
        ),
        (
            {"feedback_modeling": {"form": "inline", "weight": 0.1}},
            "rltf.feedback_modeling.form=inline: ",
        ),
        (
            {
                "episode": {"horizon": 1, "context": "append"},
                "feedback_modeling": {"weight": 0.1, "form": "inline"},
            },
            "rltf.episode.horizon=1: rltf.feedback_modeling.form=inline",
        ),
        (
            {"episode": {"horizon": 1}, "imitate": {"weight": 0.1}},
            "rltf.imitate.source=revised: rltf.imitate.weight=0.1",
        ),
        (
            {"episode": {"val_feedback_every": 0}},
            "rltf.episode.val_feedback_every=0: must be at least 1 or null",
        ),
        (
            {"seed": None, "episode": {"pair_sessions": True}},
            "rltf.seed=None: rltf.episode.pair_sessions=true",
        ),
        (
            {"imitate": {"source": "first"}},
            "rltf.imitate.source=first: must be one of revised, all",
        ),
        (
            {"mentions": {"action": "cut"}},
            "rltf.mentions.action=cut: must be one of keep, mask, drop",
        ),
        ({"mentions": {"phrases": []}}, "rltf.mentions.phrases=[]: "),
        ({"token_classes": []}, "rltf.token_classes=[]: "),
        (
            {"feedback_modeling": {"weight": 0.1, "classes": []}},
            "rltf.feedback_modeling.classes=[]: ",
        ),
        (
            {"mentions": {"phrases": ["a", ""]}},
            "rltf.mentions.phrases=['a', '']: must be text in one line, without control characters",
        ),
        ({"env": {}}, "rltf.env.name=None: must name one"),
        ({"feedback": {"level": "full"}}, "rltf.feedback.provider=None: must name one"),
        (
            {"feedback": {"provider": "verifier", "on_error": "ignore"}},
            "rltf.feedback.on_error=ignore: must be one of stop_session, correctness, raise, wait",
        ),
        (
            {"distill": {"baseline": "third_turn"}},
            (
                "rltf.distill.baseline=third_turn: must be one of first_turn, leave_one_out,"
                " joined, second_turn, second_turn_padded, none, rejection"
            ),
        ),
        (
            {"distill": {"reference": "new"}},
            "rltf.distill.reference=new: must be one of current, old, sampler",
        ),
        (
            {"distill": {"loss": "mse"}},
            "rltf.distill.loss=mse: must be one of importance_sampling, ppo, cispo, shaped",
        ),
        (
            {
                "logit_distill": {"weight": 1.0, "divergence": "sampled_token"},
                "teacher": {"against": "other_problem", "notes": "by_step"},
            },
            "rltf.teacher.notes=by_step: ",
        ),
        (
            {"distill": {"loss": {"name": "shaped", "gamma": 0}}},
            "rltf.distill.loss.gamma=0: must be positive",
        ),
        (
            {"distill": {"loss": "shaped", "reference": "sampler"}},
            "rltf.distill.reference=sampler: rltf.distill.loss=shaped",
        ),
        (
            {"distill": {"loss": "ppo"}},
            "rltf.distill.loss=ppo: ",
        ),
        (
            {"distill": {"loss": {"name": "ppo", "clip_low": 1.1}}},
            "rltf.distill.loss.clip_low=1.1: must be in (0, 1]",
        ),
        (
            {"distill": {"loss": {"name": "cispo", "clip_high": 0.9}}},
            "rltf.distill.loss.clip_high=0.9: must be at least 1",
        ),
        ({"schedule": {"start_step": -1}}, "rltf.schedule.start_step=-1: must be at least 0"),
        (
            {"schedule": {"start_step": 5, "ramp_steps": 5}},
            "rltf.schedule.ramp_steps=5: ",
        ),
        (
            {"distill": {"log_prob_floor": 5.0}},
            "rltf.distill.log_prob_floor=5.0: must be at most 0 (a log-probability)",
        ),
        # values of another kind
        ({"gamma": "high"}, "rltf.gamma='high': must be a number"),
        ({"gamma": None}, "rltf.gamma=None: must be a number"),
        ({"gamma": True}, "rltf.gamma=True: must be a number"),
        ({"seed": 1.5}, "rltf.seed=1.5: must be a whole number or null"),
        ({"episode_log": {"dir": 3}}, "rltf.episode_log.dir=3: must be text or null"),
        ({"episode": {"horizon": "two"}}, "rltf.episode.horizon='two': must be a whole number"),
        (
            {"episode": {"stop_when_solved_val": "no"}},
            "rltf.episode.stop_when_solved_val='no': must be true or false",
        ),
        (
            {"schedule": {"ramp_steps": "all"}},
            "rltf.schedule.ramp_steps='all': must be a whole number or null",
        ),
        (
            {"distill": {"weight": [0, "1"]}},
            "rltf.distill.weight=[0, '1']: must be a number or [start, end], two numbers",
        ),
        ({"episode": {"pair_sessions": 1}}, "rltf.episode.pair_sessions=1: must be true or false"),
        ({"episode": {"revise": 3}}, "rltf.episode.revise=3: must be text"),
        ({"attempt": {"weight": [0, 1]}}, "rltf.attempt.weight=[0, 1]: must be a number"),
        ({"mentions": {"phrases": "a"}}, "rltf.mentions.phrases='a': must be a list of texts"),
        (
            {"mentions": {"phrases": ["a", 3]}},
            "rltf.mentions.phrases=['a', 3]: must be a list of texts",
        ),
        ({"reward": 0.1}, "rltf.reward=0.1: is a block of keys, not a value"),
        # a schedule, in every objective that has one
        *(
            ({block: settings}, f"rltf.{block}.{message}")
            for block in ("distill", "feedback_modeling", "imitate", "critique")
            for settings, message in (
                ({"weight": -0.1}, "weight=-0.1: must be at least 0"),
                ({"weight": [0.1, -0.1]}, "weight=[0.1, -0.1]: must be at least 0"),
                ({"weight": float("nan")}, "weight=nan: must be at least 0 and finite"),
                ({"weight": "big"}, "weight='big': must be a number or [start, end], two numbers"),
                (
                    {"weight": [0, 1, 2]},
                    "weight=[0, 1, 2]: must be a number or [start, end], two numbers",
                ),
                ({"start_step": 1}, "start_step=1: unknown key"),
            )
        ),
        # what is no choice, or no parameter of it
        *(
            ({"logit_distill": {"weight": 1.0}, **block}, message)
            for block, message in (
                (
                    {"teacher": {"gate": {"name": "sigmoid", "width": 1}}},
                    "rltf.teacher.gate.width=1: rltf.teacher.gate=sigmoid does not read it; known"
                    " keys: name, scale",
                ),
                (
                    {"teacher": {"gate": {"name": "residual", "widht": 1}}},
                    "rltf.teacher.gate.widht=1: rltf.teacher.gate=residual does not read it; did"
                    " you mean rltf.teacher.gate.width?",
                ),
                ({"teacher": {"gate": {"width": 1}}}, "rltf.teacher.gate.name=None: must name one"),
                (
                    {"teacher": {"gate": {"name": "residual", "width": 0}}},
                    "rltf.teacher.gate.width=0: must be positive",
                ),
                (
                    {"teacher": {"kind": {"name": "emo", "policy_share": 1}}},
                    "rltf.teacher.kind=emo: must be one of policy, base, ema, trust_region. Did you"
                    " mean 'ema'?",
                ),
                ({"teacher": {"gate": {}}}, "rltf.teacher.gate={}: must be text"),
                ({"teacher": {"kind": None}}, "rltf.teacher.kind=None: must be one of policy, "),
                (
                    {"teacher": {"kind": ["ema"]}},
                    "rltf.teacher.kind=['ema']: must be one of policy, ",
                ),
            )
        ),
    ],
)
def test_what_cannot_be_read_names_key_value_and_fix(block, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(**block)


@pytest.mark.parametrize(
    ("given", "gate"),
    [
        ("route", Gate("route")),
        ({"name": "residual", "width": 0.1}, Gate("residual", width=0.1)),
        ({"name": "./mine.py:gate", "scale": 2}, Gate("./mine.py:gate", 2)),
    ],
)
def test_a_choice_is_a_name_or_a_block_with_its_parameters(given, gate):
    assert read(logit_distill={"weight": 1.0}, teacher={"gate": given}).teacher.gate == gate


@pytest.mark.parametrize(
    ("block", "keys"),
    [
        ({}, []),
        ({"teacher": {"reads": "sibling"}}, ["teacher.reads"]),
        ({"teacher": {"turns": "all", "right": True}}, ["teacher.turns", "teacher.right"]),
        ({"teacher": {"prompt": "./missing.j2"}}, ["teacher.prompt"]),
        (
            {"logit_distill": {"divergence": "reverse_kl", "top_k": 7}},
            ["logit_distill.divergence", "logit_distill.top_k"],
        ),
    ],
)
def test_a_setting_without_effect_is_a_warning(block, keys):
    found = [(finding.key, finding.level) for finding in unread(read(**block))]
    assert found == [(f"rltf.{key}", "warning") for key in keys]


@pytest.mark.parametrize(
    ("block", "keys"),
    [
        ({}, []),
        ({"refill_rounds": 2}, ["refill_rounds"]),
        ({"env": {"name": "textarena"}}, ["env"]),
        ({"teacher": {"gate": "route"}, "logit_distill": {"weight": 1.0}}, []),
        (
            {"teacher": {"gate": "sigmoid", "turns": "all"}, "logit_distill": {"weight": 1.0}},
            ["teacher.turns", "teacher.gate"],
        ),
    ],
)
def test_an_experimental_setting_is_named_where_it_differs(block, keys):
    assert experimental(read(**block)) == [f"rltf.{key}" for key in keys]


@pytest.mark.parametrize(("key", "choice"), [(k, c) for k in EXPERIMENTAL for c in EXPERIMENTAL[k]])
def test_an_experimental_choice_is_one(key, choice):
    named = {
        "env": env_names(),
        "feedback.provider": provider_names(),
        "episode.revise": [name.removeprefix("revise/") for name in template_names()],
    }
    block, _, field = key.partition(".")
    if key in named:
        assert choice in named[key]
    else:
        read(
            logit_distill={"weight": 1.0, "divergence": "sampled_token"}, **{block: {field: choice}}
        )


def test_an_objective_that_starts_after_the_end_is_a_warning():
    method = Method(read(distill={"weight": 0.1}, schedule={"start_step": 20}))
    settings = {"trainer.total_training_steps": 20, "actor_rollout_ref.actor.ppo_epochs": 1}
    (line,) = method.warnings(settings.get)
    assert line.key == "rltf.schedule.start_step"
    settings["trainer.total_training_steps"] = 21
    assert not list(method.warnings(settings.get))


LEVELS = ["location", "hint", "full"]


@pytest.mark.parametrize(
    ("feedback", "key"),
    [
        ({"provider": "verifier", "level": LEVELS}, "feedback.level"),
        (
            {"provider": "paired", "even": {"provider": "verifier", "level": LEVELS}},
            "feedback.even.level",
        ),
    ],
)
def test_levels_by_turn_fit_the_horizon(feedback, key):
    message = (
        f"rltf.{key}=['location', 'hint', 'full']: rltf.episode.horizon=3 gives feedback on 2"
        " attempts, so only the first 2 would be used; shorten it, or raise the horizon to 4"
    )
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(feedback=feedback, episode={"horizon": 3})
    assert read(feedback=feedback, episode={"horizon": 4}).episode.horizon == 4
    assert read(feedback=feedback, episode={"horizon": 1}).episode.horizon == 1, (
        "nobody is told anything"
    )


@pytest.mark.parametrize(
    "blocks",
    [
        *(
            {"attempt": {"weight": 0}, name: {"weight": 0.1}}
            for name in ("distill", "feedback_modeling", "imitate")
        ),
        {"episode": {"horizon": 1}, "imitate": {"weight": 0.1, "source": "all"}},
        {
            "episode": {"context": "append"},
            "feedback_modeling": {"weight": 0.1, "form": "inline"},
        },
        {"feedback_modeling": {"weight": 0, "form": "inline"}},
        {"gamma": 1, "distill": {"weight": 1}},
        {"episode_log": {"dir": None}, "schedule": {"ramp_steps": None}},
        {"distill": {"log_prob_floor": None}},
    ],
)
def test_what_may_stand_beside_an_objective_and_values_that_mean_something(blocks):
    read(**blocks)
