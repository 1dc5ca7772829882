"""Every method composes, is accepted, and is in the docs as it is; the prompts of all as text, in
one file that a person can read.

And what `rltf/hardware=gpu` sets and leaves to others. One YAML per provider: it composes, is
accepted, says every option.

After a deliberate change: RLTF_UPDATE_GOLDEN=1 pytest tests/adapters/startup/test_presets_on_cpu.py
"""

import difflib
import inspect
import os
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.config import SOURCES, FeedbackConfig, NamedOptions, RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.templates import with_context, with_template
from rltf_verl.feedback import _PROVIDERS, make_provider, provider_names
from rltf_verl.prompts import render, template_of
from rltf_verl.registry import load
from rltf_verl.types import Problem
from tests.support import configs

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts.txt"
ASKED = {
    "math": {"question": "What is $6 \\cdot 7$?", "subset": "mine"},
    "writing": {"question": "Write a story of 50 words about rain.", "rubric": []},
    "binary_matrix": {"matrix": ((0, 1), (1, 1)), "solution": ((0, 1), (1, 2))},
    "shortest_path": {"grid": (("*", "O"), ("X", "#"))},
    "knights_knaves": {"quiz": "Ann says: Bob lies. Bob says: Ann lies. Who is who?"},
    "code": {"statement": "Print the sum of two numbers.", "entry": None, "starter": ""},
    "reasoning_gym": {"question": "What comes next: 1, 2, 4?", "task": "number_sequence"},
}
OWN = "Sort the letters of the word: rain. Answer with the letters alone."
ATTEMPT, FEEDBACK = "THE ATTEMPT", "THE FEEDBACK"
URL = {"endpoint": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}
FEEDBACKS = {
    "verifier, hint": ("verifier", {"level": "hint"}),
    "verifier, full": ("verifier", {"level": "full"}),
    "judge, hint": ("judge", URL),
    "judge, guide": ("judge", {"style": "guide", **URL}),
    "policy": ("policy", {}),
    "siblings": ("siblings", {"each": {"provider": "verifier"}}),
    "correctness": ("correctness", {}),
}


class Own(Env):
    """An environment of a user's."""

    name = "own"

    def prompt(self, problem: Problem) -> str:
        return OWN


@cache
def env_of(name: str, style: str | None = None) -> Env:
    if name == "own":
        return Own()
    options = {"style": style} if style else {"sandbox": "unsafe_process"} if name == "code" else {}
    return make_env(name, **options)


def question_of(name: str) -> str:
    env = env_of(name)
    return env.prompt(Problem(name, 0, ASKED.get(name, {}), ""))


def shown(name: str, folder: str, template: str) -> str:
    text = render(
        template_of(folder, template),
        question=question_of(name),
        attempt=ATTEMPT,
        feedback=FEEDBACK,
    )
    return f"--- {name}, {folder}/{template}\n{text}"


def shown_to_teacher(name: str, source: str, template: str = "privileged") -> str:
    fields = {field: f"THE {field.upper()}" if field == source else "" for field in SOURCES}
    text = render(f"teacher/{template}", question=question_of(name), attempt=ATTEMPT, **fields)
    return f"--- {name}, teacher/{template}, {source}\n{text}"


def resolved(config: RLTFConfig, env: Env) -> RLTFConfig:
    """Under a chat template that keeps what was said."""
    named = config.feedback.provider
    provider = make_provider(named.name, **named.options)
    return with_template(with_context(config, env, provider, True), env, provider)


def of_presets() -> tuple[list[str], dict[tuple[str, str, str], None]]:
    """A line for each preset, and the prompts that they have."""
    lines, prompts = [], {}
    for preset in configs.presets():
        provider = preset.rltf.feedback.provider
        options = {**provider.options, **(URL if provider.name == "judge" else {})}
        feedback = replace(preset.rltf.feedback, provider=NamedOptions(provider.name, options))
        env = preset.rltf.env.name
        config = resolved(replace(preset.rltf, feedback=feedback), env_of(env))
        parts = [f"{preset.name}: {env}, {provider.name}"]
        if config.episode.horizon > 1:
            prompts[env, "revise", str(config.episode.revise)] = None
            parts.append(f"{config.episode.context} revise/{config.episode.revise}")
        if config.feedback_modeling.enabled and config.feedback_modeling.form == "rows":
            prompts[env, "critic", config.feedback_modeling.critic] = None
            parts.append(f"critic/{config.feedback_modeling.critic}")
        if config.teaches:
            parts.append(
                f"{config.teacher.prompt}, teacher reads {', '.join(config.teacher.sources)}"
            )
        lines.append(", ".join(parts))
    return lines, prompts


def of_environments() -> tuple[list[str], dict[tuple[str, str, str], None]]:
    """A line for each environment and feedback, and the prompts of the feedback that is the
    default.
    """
    lines, prompts = [], {}
    places = [(name, None) for name in [*ASKED, "own"]]
    places += [(name, "compact") for name in ("binary_matrix", "shortest_path", "knights_knaves")]
    for name, style in places:
        for about, (provider, options) in FEEDBACKS.items():
            feedback = FeedbackConfig(NamedOptions(provider, options))
            templates = []
            for context in ("fresh", "append"):
                config = RLTFConfig(feedback=feedback)
                config = replace(config, episode=replace(config.episode, context=context))
                templates.append(str(resolved(config, env_of(name, style)).episode.revise))
                if about == "verifier, hint" and style is None:
                    prompts[name, "revise", templates[-1]] = None
            lines.append(
                f"{name}{' compact' if style else ''}, {about}: {', append '.join(templates)}"
            )
    return lines, prompts


def whole() -> str:
    """The file."""
    methods, some = of_presets()
    environments, others = of_environments()
    firsts = [f"--- {name}, first\n{question_of(name)}" for name in [*ASKED, "own"]]
    named = {**others, **some, ("binary_matrix", "critic", "critique"): None}
    named |= {
        ("binary_matrix", "revise", t): None
        for t in ("compact", "compact_guide", "compact_append", "feedback")
    }
    texts = [shown(*key) for key in sorted(named)] + [
        shown_to_teacher(*key)
        for key in (
            *product(("math", "code"), SOURCES),
            ("binary_matrix", "reference", "compact"),
        )
    ]
    parts = [
        "=== Presets",
        *methods,
        "",
        "=== Environments and feedback",
        *environments,
        "",
        "=== Prompts",
        "",
    ]
    return "\n".join([*parts, "\n\n".join([*firsts, *texts]), ""])


def test_the_prompts_are_those_that_were_read() -> None:
    text = whole()
    if os.environ.get("RLTF_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, "utf-8")
    golden = GOLDEN.read_text("utf-8")
    changed = "\n".join(
        difflib.unified_diff(golden.split("\n"), text.split("\n"), GOLDEN.name, "now", lineterm="")
    )
    assert text == golden, f"prompts have changed:\n{changed}"


def test_a_second_prompt_asks_for_the_form_that_the_first_one_asks_for() -> None:
    templates = ("critique", "guide", "feedback", "append", "dialogue_append", "plain_append")
    questions = {question: "\\boxed" in question for question in map(question_of, [*ASKED, "own"])}
    questions['7 * 9? Output the final answer after "####".'] = False
    questions["7 * 9? In \\boxed{} or after ####."] = False
    for (question, boxed), template in product(questions.items(), templates):
        text = render(f"revise/{template}", question=question, attempt=ATTEMPT, feedback=FEEDBACK)
        asks = "\\boxed" in text.rpartition(FEEDBACK)[2]
        assert asks == (boxed and template != "plain_append"), (question, template)


def test_each_is_accepted_and_can_be_looked_at_and_resumed_without_further_words():
    """verl's own defaults log to wandb, never validate again and never save."""
    for preset in configs.presets():
        if "endpoint" in preset.config.rltf.feedback:
            preset.config.rltf.feedback.endpoint.update(
                base_url="http://127.0.0.1:8000/v1", model="m"
            )
        checked_parts(preset.config)
        trainer = preset.config.trainer
        assert list(trainer.logger) == ["file"]
        assert min(trainer.test_freq, trainer.save_freq, trainer.max_actor_ckpt_to_keep) > 0


def test_the_releases_presets_have_its_adam():
    """Its epsilon of 1e-8 goes with token sums; ours are divided by episodes x response budget."""
    release = [preset.config for preset in configs.presets() if preset.name.startswith("release/")]
    assert len(release) >= 7
    for config in release:
        episodes = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
        eps = (
            config.actor_rollout_ref.actor.optim.override_optimizer_config.eps
            * episodes
            * config.data.max_response_length
        )
        assert eps == pytest.approx(1e-8, rel=1e-3)


GPU, CPU = "rltf/hardware=gpu", "rltf/hardware=cpu"
PAIRED = "rltf/method=dual_critique"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, "fsdp2", 2)),
        ([GPU, "actor_rollout_ref.actor.strategy=fsdp"], (None, "fsdp", 2)),
        (["rltf.seed=3"], (3, "fsdp2", 2)),
        (["model_engine=megatron"], (None, "megatron", 2)),
        (["model_engine=veomni"], (None, "veomni", 2)),
        ([CPU], (0, "fsdp2", 1)),
        ([f"{GPU}_small"], (0, "fsdp2", 2)),
        ([PAIRED], (0, "fsdp2", 2)),
        ([PAIRED, CPU], (0, "fsdp2", 1)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_seed_strategy_and_storage_units(words, expected):
    config = configs.composed("rltf", "actor_rollout_ref.model.path=/nowhere", *words)
    units = config.transfer_queue.backend.SimpleStorage.num_data_storage_units
    actor = config.actor_rollout_ref.actor
    assert (config.rltf.seed, actor.strategy, units) == expected
    assert config.actor_rollout_ref.ref.strategy == actor.strategy


FOLDER = Path(__file__).parents[3] / "hydra_configs" / "rltf_verl" / "rltf" / "feedback"
OURS = {"provider", "ask", "on_error", "guard", "acknowledge_leaks"}
SETTINGS = ("teacher", "execution", "escalating", "verifier_full")
"""Of a judge, and of the verifier."""


def test_every_provider_has_one() -> None:
    ours = {name for name, where in _PROVIDERS.items() if where.startswith("rltf_verl.")}
    groups = {path.stem for path in FOLDER.glob("*.yaml")} - {"own", *SETTINGS}
    assert groups == ours <= set(provider_names())


@pytest.mark.parametrize("name", ["shuffled", "siblings", "try_again"])
def test_it_names_every_option_with_its_default_and_start_up_accepts_it(name: str) -> None:
    options = inspect.signature(load("", _PROVIDERS[name])).parameters
    block = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    assert set(block) - OURS == set(options)
    assert block["provider"] == name
    for key, option in options.items():
        assert option.default in (inspect.Parameter.empty, block[key]), key
    rltf = checked_parts(configs.composed("rltf_sd", *START, f"rltf/feedback={name}")).config
    assert rltf.feedback.provider.name == name


START = ("rltf/hardware=cpu", "actor_rollout_ref.model.path=/nowhere")
OF_URL = ["rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1", "rltf.feedback.endpoint.model=m"]


@pytest.mark.parametrize(("group", "style"), [("judge", "hint"), ("teacher", "teacher")])
def test_the_yaml_holds_the_defaults(group: str, style: str) -> None:
    config = configs.composed("rltf_sd", *START, f"rltf/feedback={group}", *OF_URL)
    provider = checked_parts(config).config.feedback.provider
    plain = make_provider("judge", style=style, **URL)
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
    config = configs.composed("rltf_sd", *START, "rltf/feedback=judge", *OF_URL, word)
    with pytest.raises(ValueError, match=r"rltf\.feedback\.endpoint\.") as refused:
        checked_parts(config)
    assert "1a2b3c4d" not in str(refused.value)
