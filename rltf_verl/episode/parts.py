"""A run's environment and provider: built once per process, and handed to all that need them."""

from __future__ import annotations

from dataclasses import dataclass

from rltf_verl.config import RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.provider import build_provider
from rltf_verl.episode.templates import with_template
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.judge.gateway import Judge, Opener, judges_of


@dataclass(frozen=True)
class Parts:
    """What episodes are played by; the same object for every episode of a process."""

    config: RLTFConfig
    env: Env
    provider: FeedbackProvider

    @classmethod
    def of(cls, config: RLTFConfig) -> Parts:
        """The parts that a configuration names, and the configuration with the template that fits
        them.

        Raises:
            ValueError: a part that cannot be made, or a template that does not fit.
        """
        env = make_env(config.env.name, **config.env.options)
        provider = build_provider(config.feedback)
        return cls(with_template(config, env, provider), env, provider)

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Those that an episode may ask; several of equal settings share one runtime."""
        return judges_of(self.env) + judges_of(self.provider)

    @property
    def words_of_judge(self) -> int:
        """Of the longest feedback that a judge may write; 0: no judge writes any."""
        return max((judge.words for judge in judges_of(self.provider)), default=0)

    def open(self, opener: Opener) -> Parts:
        """The same parts, whose judges are asked through `opener` from now on."""
        for judge in self.judges:
            judge.open(opener)
        return self
