"""Every method composes, is accepted, and is in the docs as it is; the prompts of all as text, in
one file that a person can read.

After a deliberate change: RLTF_UPDATE_GOLDEN=1 pytest tests/adapters/startup/test_presets_on_cpu.py
"""

import difflib
import os
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.config import SOURCES, FeedbackConfig, NamedOptions, RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.templates import with_context, with_template
from rltf_verl.feedback import make_provider
from rltf_verl.prompts import render, template_of
from rltf_verl.types import Problem
from tests.support import configs

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts.txt"
MATRIX = ((0, 1), (1, 1))
ASKED = {
    "math": {"question": "What is $6 \\cdot 7$?", "subset": "mine"},
    "writing": {"question": "Write a story of 50 words about rain.", "rubric": []},
    "binary_matrix": {"matrix": MATRIX, "solution": ((0, 1), (1, 2))},
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


COMPACT = [("binary_matrix", "reference", "compact")]


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
        shown_to_teacher(*key) for key in (*product(("math", "code"), SOURCES), *COMPACT)
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


@pytest.fixture(scope="module")
def presets():
    return configs.presets()


def test_each_is_accepted_and_can_be_looked_at_and_resumed_without_further_words(presets):
    """verl's own defaults log to wandb, never validate again and never save."""
    for preset in presets:
        if "endpoint" in preset.config.rltf.feedback:
            preset.config.rltf.feedback.endpoint.update(
                base_url="http://127.0.0.1:8000/v1", model="m"
            )
        checked_parts(preset.config)
        trainer = preset.config.trainer
        assert list(trainer.logger) == ["file"]
        assert min(trainer.test_freq, trainer.save_freq, trainer.max_actor_ckpt_to_keep) > 0


def test_the_releases_presets_have_its_adam(presets):
    """Its epsilon of 1e-8 goes with token sums; ours are divided by episodes x response budget."""
    release = [preset.config for preset in presets if preset.name.startswith("release/")]
    assert len(release) >= 7
    for config in release:
        episodes = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
        eps = (
            config.actor_rollout_ref.actor.optim.override_optimizer_config.eps
            * episodes
            * config.data.max_response_length
        )
        assert eps == pytest.approx(1e-8, rel=1e-3)
