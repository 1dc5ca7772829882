"""Let Hydra find this package's configs: `main_ppo --config-name=rltf` works from any directory."""

from __future__ import annotations

from collections.abc import Mapping

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

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
        """Add `hydra_configs.rltf_verl`."""
        search_path.append(provider="rltf_verl", path="pkg://hydra_configs.rltf_verl")
