"""Let Hydra find this package's configs: `main_ppo --config-name=rltf` works from any directory."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

logger = logging.getLogger(__name__)

FEEDBACK = {
    "dual_critique": "paired",
    "group_critique": "siblings",
    "guided": "escalating",
    "release/dual_critique": "paired",
    "rl2f": "teacher",
    "rlef": "execution",
    "self_critique": "policy",
    "ufo": "try_again",
}
"""Method -> the `rltf/feedback` that `rltf.yaml` takes with it unless another one is chosen; the
release's methods take `verifier_full`, all others `verifier`."""

ENV = {"rlef": "code"}
"""Method -> the `rltf/env` that `rltf.yaml` takes with it unless another one is chosen; all others
take `binary_matrix`."""

OLD_NAMES = {
    f"rltf_{method}": method
    for method in (
        *(
            "critique_grpo",
            "dual_critique",
            "fm_inline",
            "guided",
            "raft",
            "rl2f",
            "rlef",
            "sd_cispo",
        ),
        *("sd_ppo", "sd_reject", "sd_second_turn", "self_critique", "sft", "ufo"),
    )
}
OLD_NAMES |= {"rltf_sd_logit": "teacher/sd_logit"} | {
    f"rltf_release/{mode}": f"release/{mode}"
    for mode in ("dual_critique", "fm", "grpo", "sd", "sd_cispo", "sd_ppo", "sd_second_turn", "sft")
}
"""What were primary configs of their own -> the method that they are now."""

OLD_METHODS = {
    f"rltf/method/{name}": f"teacher/{name}"
    for name in ("opsd", "rlsd", "sc_sdpo", "sd_logit", "sdft", "sdpo", "srpo")
}
"""What methods were called -> what they are called now."""

EXPERIMENTS = {
    f"{task}_{method}": f"task={task} method={method}"
    for tasks, methods in (
        ("bm dapo deepmath kk sp writing", "fm grpo grpo_single sd"),
        (
            "dapo kk",
            "fm_self_critique grpo_correctness grpo_self_critique sd_cispo sd_correctness sd_ppo"
            " sd_reject sd_second_turn sft",
        ),
    )
    for task in tasks.split()
    for method in methods.split()
}
"""What were primary configs of recipes/rltf: task and method."""


def feedback_of(method: str) -> str:
    """The feedback that comes with a method."""
    return FEEDBACK.get(method, "verifier_full" if method.startswith("release/") else "verifier")


def env_of(method: str) -> str:
    """The environment that comes with a method."""
    return ENV.get(method, "binary_matrix")


def run_name(*groups: str) -> str:
    """The run's name, fit for a file: that of its primary config, or the choices of `groups`.

    A run of the primary config `rltf` is called after its method. `rltf` if no run was started, as
    when a config is only read.
    """
    if not HydraConfig.initialized():
        return "rltf"
    config = HydraConfig.get()
    choices: Mapping[str, str] = config.runtime.choices
    if groups:
        name = "_".join(str(choices[group]) for group in groups)
    elif config.job.config_name == "rltf" and "rltf/method" in choices:
        name = f"rltf_{choices['rltf/method']}"
    else:
        name = str(config.job.config_name)
    return name.replace("/", "_")


OmegaConf.register_new_resolver("rltf_config_name", run_name, replace=True)
OmegaConf.register_new_resolver("rltf_env_of", env_of, replace=True)
OmegaConf.register_new_resolver("rltf_feedback_of", feedback_of, replace=True)


class RLTFSearchPath(SearchPathPlugin):
    """Appends, never prepends: verl's own names win."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add `hydra_configs.rltf_verl`, and behind it the old names."""
        search_path.append(provider="rltf_verl", path="pkg://hydra_configs.rltf_verl")
        search_path.append(provider="rltf_verl old names", path="rltf-old-names://")


class OldNames(ConfigSource):
    """Primary configs and methods that have another name now; one line tells it."""

    @staticmethod
    def scheme() -> str:
        """`rltf-old-names://`."""
        return "rltf-old-names"

    def available(self) -> bool:
        """Always."""
        return True

    def is_group(self, config_path: str) -> bool:
        """None: Hydra lists groups as choices, and old names are no choices."""
        return False

    def is_config(self, config_path: str) -> bool:
        """Whether it is an old name."""
        name = config_path.removesuffix(".yaml")
        return name in OLD_NAMES or name in OLD_METHODS or name in EXPERIMENTS

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Nothing, as above."""
        return []

    def load_config(self, config_path: str) -> ConfigResult:
        """`rltf` with the method, or the method, and the line.

        Raises:
            ConfigCompositionException: it is one of recipes/rltf, whose primary config cannot be
                part of another one.
        """
        name = config_path.removesuffix(".yaml")
        if name in OLD_METHODS:
            return self._method(name)
        if name not in OLD_NAMES:
            new = f"--config-name=paper {EXPERIMENTS[name]}"
            raise ConfigCompositionException(f"--config-name={name} is now {new}")
        method = OLD_NAMES[name]
        logger.warning("--config-name=%s is now --config-name=rltf rltf/method=%s", name, method)
        config = OmegaConf.create(
            {"defaults": ["/rltf", {"override /rltf/method": method}, "_self_"]}
        )
        return ConfigResult(self.provider, self.full_path(), config, {"package": "_global_"})

    def _method(self, name: str) -> ConfigResult:
        new, old = OLD_METHODS[name], name.removeprefix("rltf/method/")
        logger.warning("rltf/method=%s is now rltf/method=%s", old, new)
        config = OmegaConf.create({"defaults": [new, "_self_"]})
        return ConfigResult(self.provider, self.full_path(), config, {"package": "rltf"})
