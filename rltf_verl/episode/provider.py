"""From the block `rltf.feedback` to the provider that episodes ask: recorded and guarded as it
says.
"""

from __future__ import annotations

from pathlib import Path

from rltf_verl.config import ConfigError, FeedbackConfig, GuardConfig
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider, tells_answer_of
from rltf_verl.feedback.guard import GuardedProvider, GuardSettings
from rltf_verl.feedback.guard.judged import JudgedLeak
from rltf_verl.feedback.record import RecordedProvider
from rltf_verl.feedback.siblings import SiblingsProvider
from rltf_verl.judge.gateway import judges_of


def build_provider(config: FeedbackConfig) -> FeedbackProvider:
    """The provider of a run.

    What is recorded is what the provider said, before the guard: a replay may be guarded in another
    way.

    Raises:
        ValueError: unknown provider or option, or one that may tell the answer with nobody looking.
    """
    name, guard = config.provider.name, config.guard
    provider = make_provider(name, **config.provider.options)
    meant = config.acknowledge_leaks and guard.action in ("none", "warn")
    if tells_answer_of(provider) and guard.action != "redact" and not meant:
        raise ConfigError(
            f"rltf.feedback.provider={name}: it states the answer on purpose (a verifier at"
            " level=full, a sibling's solution); choose a verifier's level=hint, or, if it is"
            " meant, rltf.feedback.acknowledge_leaks=true rltf.feedback.guard.action=none (as"
            " rltf/feedback=verifier_full)"
        )
    if provider.sees_reference and guard.action == "none" and not config.acknowledge_leaks:
        raise ConfigError(
            f"rltf.feedback.guard.action=none: provider {name} sees the reference answer and no one"
            " checks whether it tells; set it to drop, redact, regenerate or warn, or, if it is"
            " meant to tell, rltf.feedback.acknowledge_leaks=true"
        )
    siblings = provider if isinstance(provider, SiblingsProvider) else None
    if siblings is not None:  # what it adds are the policy's own words
        siblings.each = _guarded(siblings.each, guard)
        siblings.judges = judges_of(siblings.each)
    if config.record_dir is not None:
        provider = RecordedProvider(provider, Path(config.record_dir), config.provider.options)
    return provider if siblings is not None else _guarded(provider, guard)


def _guarded(provider: FeedbackProvider, guard: GuardConfig) -> FeedbackProvider:
    if guard.action == "none":
        return provider
    return GuardedProvider(
        provider,
        guard.action,
        check_all=guard.check_all,
        regenerations=guard.regenerations,
        settings=GuardSettings(parts=guard.parts, overlap=guard.overlap),
        also=None if guard.judge is None else JudgedLeak(guard.judge),
    )
