"""Let Hydra find this package's configs, so that `main_ppo --config-name=<ours>` works from any
directory.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf


def config_name() -> str:
    """The run's primary config, as a file's name; `rltf` where none was started (a config that is
    only looked at).
    """
    return (
        str(HydraConfig.get().job.config_name).replace("/", "_")
        if HydraConfig.initialized()
        else "rltf"
    )


OmegaConf.register_new_resolver("rltf_config_name", config_name, replace=True)


class RLTFSearchPath(SearchPathPlugin):
    """Appends, never prepends: verl's own names win."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add `hydra_configs.rltf_verl` at the end of the search path."""
        search_path.append(provider="rltf_verl", path="pkg://hydra_configs.rltf_verl")
