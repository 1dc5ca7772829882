"""Let Hydra find this package's configs, so that `main_ppo --config-name=<ours>` works from any directory."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class RLTFSearchPath(SearchPathPlugin):
    """Appends, never prepends: verl's own names win."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add `hydra_configs.rltf_verl` at the end of the search path."""
        search_path.append(provider="rltf_verl", path="pkg://hydra_configs.rltf_verl")
