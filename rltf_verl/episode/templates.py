"""Choose the template of turns 2 and later, and the teacher's; check that it shows its subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.envs.base import Env
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.prompts import FIELDS, fields_shown, require_template, template_of

TEMPLATES: Mapping[str, str] = {
    "attempt": "critique",
    "question": "guide",
    "answer": "critique",
    "group": "attempts",
    "logits": "feedback",
    "append": "plain_append",
}
"""Subject of the feedback (`feedback.base.Subject`) -> template of a fresh conversation. `logits`:
the teacher's, which scores the attempt's own tokens and would approve of an attempt that its prompt
quotes (SDPO). `append`: for an appended conversation, whatever it is about. An environment may have
others (`Env.revise_templates`)."""

ACTING: Mapping[str, str] = {
    "attempt": "act",
    "question": "act_guide",
    "answer": "act",
    "group": "act_guide",
    "logits": "act_guide",
    "append": "act_append",
}
"""In place of these where the policy acts: its state is fresh, and it has steps to do again."""


def _own_templates(env: Env) -> Mapping[str, str]:
    if env.revise_templates is not None:
        return env.revise_templates
    return ACTING if env.acts else {}


def with_context(
    config: RLTFConfig, env: Env, provider: FeedbackProvider, keeps_answers: bool
) -> RLTFConfig:
    """The configuration with `rltf.episode.context` named.

    Args:
        config: of the run.
        env: grades.
        provider: gives feedback.
        keeps_answers: a later prompt has the answers before it as they were sampled.
    """
    episode = config.episode
    if episode.context is not None:
        return config
    is_revised = episode.horizon > 1 and episode.retry == "whole" and episode.revise is None
    # A teacher's prompt was made for a fresh conversation.
    about_answers = not (env.acts or config.teaches) and provider.subject in (
        None,
        "attempt",
        "answer",
    )
    grows = keeps_answers and is_revised and about_answers and episode.quote != "none"
    return replace(config, episode=replace(episode, context="append" if grows else "fresh"))


def with_template(config: RLTFConfig, env: Env, provider: FeedbackProvider) -> RLTFConfig:
    """The configuration with `rltf.episode.revise` and `rltf.teacher.prompt` named.

    Raises:
        ConfigError: no such template, or one that does not show what later turns or the teacher
            need.
    """
    named = config.episode.revise or fitting_template(config, env, provider)
    require_template("rltf.episode.revise", "revise", named)
    if config.teaches:
        prompt = config.teacher.prompt or teacher_template(config, env)
        require_template("rltf.teacher.prompt", "teacher", prompt)
        _require_sources_shown(config, prompt)
        config = replace(config, teacher=replace(config.teacher, prompt=prompt))
    if config.episode.horizon == 1:  # no later turn
        return config
    _require_shown(config, named, provider)
    return replace(config, episode=replace(config.episode, revise=named))


def teacher_template(config: RLTFConfig, env: Env) -> str:
    """The template that `rltf.teacher.prompt=null` means."""
    teacher, templates = config.teacher, _own_templates(env)
    feedback_alone = teacher.sources == ("feedback",) and teacher.turns == "first"
    if feedback_alone and config.episode.context != "append":
        return template_of("revise", templates.get("logits", TEMPLATES["logits"]))
    return template_of("teacher", templates.get("teacher", "privileged"))


def _require_sources_shown(config: RLTFConfig, template: str) -> None:
    """Raise ConfigError unless each source is shown where the others are empty."""
    key, fix = f"rltf.teacher.prompt={template}", "choose another template, or null"
    for source in config.teacher.sources:
        others = [name for name in FIELDS["teacher"] if name not in ("question", source)]
        shown = fields_shown(template, ("question", source), others)
        for name in ("question", source):
            if name not in shown:
                where = "" if name == "question" else f" (rltf.teacher.reads={name})"
                raise ConfigError(f"{key}: does not show the {name}{where}; {fix}")


def fitting_template(config: RLTFConfig, env: Env, provider: FeedbackProvider) -> str:
    """The template that `rltf.episode.revise=null` means for this environment and provider."""
    templates = _own_templates(env)
    if config.episode.context == "append":
        return templates.get("append") or TEMPLATES["append"]
    about: str = "question" if config.episode.quote == "none" else provider.subject or "attempt"
    return templates.get(about) or TEMPLATES[about]


def _require_shown(config: RLTFConfig, template: str, provider: FeedbackProvider) -> None:
    episode, name = config.episode, config.feedback.provider.name
    shown = fields_shown(template_of("revise", template), FIELDS["revise"])
    key, fix = f"rltf.episode.revise={template}", "or null, which takes the one that fits"
    if "feedback" not in shown:
        raise ConfigError(f"{key}: does not show the feedback; choose another template, {fix}")
    if episode.context == "append":  # the conversation has question and attempt
        return
    if "question" not in shown:
        raise ConfigError(
            f"{key}: does not show the question, and with rltf.episode.context=fresh nothing else"
            f" does; choose another template, {fix}, or set context=append"
        )
    if "attempt" in shown and episode.quote == "none":
        raise ConfigError(
            f"rltf.episode.quote=none: template {template} shows the attempt; set it to answer, or"
            " revise to guide"
        )
    unseen = "attempt" not in shown and episode.quote != "none"
    if unseen and provider.subject == "attempt":
        raise ConfigError(
            f"{key}: does not show the attempt that the feedback of rltf.feedback.provider={name}"
            f" is about; choose critique or another template that does, {fix}, or, if it is meant,"
            " set rltf.episode.quote=none"
        )
