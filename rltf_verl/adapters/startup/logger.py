"""Whether the loggers of the run can start: verl opens them in Ray, after the model is loaded."""

from __future__ import annotations

import importlib.util
import netrc
import os
from pathlib import Path
from urllib.parse import urlsplit

from omegaconf import DictConfig
from verl.utils.tracking import Tracking

from rltf_verl.config import ConfigError

KEY = "trainer.logger"
PACKAGES = {
    "wandb": "wandb",
    "tracking": "wandb",
    "trackio": "trackio",
    "mlflow": "mlflow",
    "swanlab": "swanlab",
    "clearml": "clearml",
    "tensorboard": "tensorboard",
}
"""Logger -> the package that it needs."""
SILENT = ("offline", "disabled", "dryrun")
"""Values of WANDB_MODE that need no login."""


def loggers_of(config: DictConfig) -> list[str]:
    """Names in `trainer.logger`, which may be one or a list."""
    named = config.trainer.logger
    return [named] if isinstance(named, str) else [str(name) for name in named]


def check_loggers(config: DictConfig, *, here: bool) -> None:
    """Raise ConfigError if a logger is unknown, not installed, or not logged in.

    Args:
        config: the whole config.
        here: the run's processes are this machine's; else packages and logins are not checked.
    """
    names = loggers_of(config)
    shown = f"{KEY}={names}".replace("'", "").replace(" ", "")
    backends = [*Tracking.supported_backend, "tracking"]
    for name in names:
        if name not in backends:
            raise ConfigError(f"{shown}: verl has no logger {name}; known: {', '.join(backends)}")
        package = PACKAGES.get(name)
        if here and package and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"{shown}: the package {package} is not installed; pip install {package}, or set"
                f" {KEY}=[file]"
            )
    if here and {"wandb", "tracking"} & set(names) and not _wandb_is_ready():
        raise ConfigError(
            f"{shown}: there is no wandb login on this machine; run `wandb login`, set"
            f" WANDB_MODE=offline in the environment, or {KEY}=[file]"
        )


def _wandb_is_ready() -> bool:
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_MODE", "").lower() in SILENT:
        return True
    if os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    places = [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]
    return any(_has_login(Path(place).expanduser(), host) for place in places if place)


def _has_login(path: Path, host: str) -> bool:
    """Whether a netrc file has a password for the host, or for another server of wandb's."""
    try:
        machines = netrc.netrc(str(path)).hosts
    except (OSError, netrc.NetrcParseError):
        return False
    return any(name == host or "wandb" in name for name in machines)
