"""A run's environment and provider, guarded: built once per process."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rltf_verl.config import ConfigError, FeedbackConfig, GuardConfig, RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.templates import with_context, with_template
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.feedback.guard.provider import GuardedProvider, JudgedLeak
from rltf_verl.feedback.siblings import SiblingsProvider
from rltf_verl.judge.gateway import Judge, Opener, judges_of
from rltf_verl.registry import with_defaults


@dataclass(frozen=True)
class Parts:
    """Configuration, environment and provider; shared by all episodes of a process."""

    config: RLTFConfig
    env: Env
    provider: FeedbackProvider

    def __post_init__(self) -> None:
        with_defaults(self.env, Env)
        with_defaults(self.provider, FeedbackProvider)

    @classmethod
    def of(cls, config: RLTFConfig, keeps_answers: bool = False) -> Parts:
        """The parts that a configuration names, and the configuration with the context and the
        template that fit them.

        Args:
            config: of the run.
            keeps_answers: the model's chat template keeps what was said.

        Raises:
            ValueError: a part that cannot be made, or a template that does not fit.
        """
        env = make_env(config.env.name, **config.env.options)
        provider = build_provider(config.feedback)
        config = with_context(config, env, provider, keeps_answers)
        parts = cls(with_template(config, env, provider), env, provider)
        if config.feedback.on_error == "wait":
            if not parts.judges:
                raise ConfigError(
                    "rltf.feedback.on_error=wait: no judge is asked; set stop_session"
                )
            for judge in parts.judges:
                judge.wait()
        return parts

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Judges that an episode may ask; those of equal settings share one runtime."""
        return judges_of(self.env) + judges_of(self.provider)

    @property
    def words_of_judge(self) -> int:
        """Longest feedback that a judge may write; 0 without a judge."""
        return max((judge.words for judge in judges_of(self.provider)), default=0)

    def open(self, opener: Opener) -> Parts:
        """The same parts, whose judges go through `opener` from now on."""
        for judge in self.judges:
            judge.open(opener)
        return self


def build_provider(config: FeedbackConfig) -> FeedbackProvider:
    """The provider of a run.

    Raises:
        ValueError: unknown provider or option, or a provider that may leak the answer unguarded.
    """
    name, guard = config.provider.name, config.guard
    provider = make_provider(name, **config.provider.options)
    meant = config.acknowledge_leaks and guard.action in ("none", "warn")
    if provider.tells_answer and guard.action != "redact" and not meant:
        raise ConfigError(
            f"rltf.feedback.provider={name}: it states the answer on purpose (a verifier at"
            " level=full, a sibling's solution); choose a verifier's level=hint, or, if it is"
            " meant, rltf.feedback.acknowledge_leaks=true rltf.feedback.guard.action=none (as"
            " rltf/feedback=verifier_full)"
        )
    if provider.sees_reference and guard.action == "none" and not config.acknowledge_leaks:
        raise ConfigError(
            f"rltf.feedback.guard.action=none: provider {name} sees the reference answer and the"
            " leak guard is off; set it to drop, redact, regenerate or warn, or, if the answer may"
            " be told, rltf.feedback.acknowledge_leaks=true"
        )
    siblings = provider if isinstance(provider, SiblingsProvider) else None
    if siblings is not None:  # what it adds are the policy's own words
        siblings.each = _guard(siblings.each, guard)
        siblings.judges = siblings.each.judges
    return provider if siblings is not None else _guard(provider, guard)


def _guard(provider: FeedbackProvider, guard: GuardConfig) -> FeedbackProvider:
    if guard.action == "none":
        return provider
    return GuardedProvider(
        provider,
        guard.action,
        also=None if guard.judge is None else JudgedLeak(guard.judge),
    )


def template_for(env: Env, revise: str | None = None) -> str:
    """The template of later prompts in a run with this environment and a verifier's hints.

    Args:
        env: the environment.
        revise: `rltf.episode.revise`; None is the one that fits.

    Raises:
        ValueError: a template that does not fit.
    """
    block = {"provider": "verifier", "level": "hint"}
    config = RLTFConfig.from_mapping({"env": {"name": env.name}, "feedback": block})
    config = replace(config, episode=replace(config.episode, revise=revise))
    return with_template(config, env, build_provider(config.feedback)).episode.revise or ""
