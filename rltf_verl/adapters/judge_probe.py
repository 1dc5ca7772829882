"""What `rltf doctor` says about judges: whether a run could ask them. Costs no tokens."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException

from rltf_verl.adapters.probes import Check, describe
from rltf_verl.config import RLTFConfig
from rltf_verl.episode.provider import judged_parts
from rltf_verl.judge.client import require_packages
from rltf_verl.judge.gateway import gateways_of
from rltf_verl.judge.settings import Endpoint

PATIENCE_S = 10.0


def judge_check(config: RLTFConfig) -> Check:
    """One line about the judges that a run's provider, leak guard and environment ask."""
    provider = config.feedback.provider
    try:
        endpoints = [s.endpoint for s in gateways_of(lambda: judged_parts(config))]
        if not endpoints:
            return Check("judge", "ok", f"none configured (rltf.feedback.provider={provider.name} asks no model)")
        require_packages()
        told = [_reached(endpoint) for endpoint in endpoints]
    except ValueError as error:
        return Check("judge", "failed", f"rltf.feedback.provider={provider.name}", str(error))
    except (OSError, HTTPException) as error:
        fix = "start it, or mend rltf.feedback.endpoint (base_url, api_key_env)"
        return Check("judge", "failed", f"{', '.join(e.base_url for e in endpoints)}: {describe(error)}", fix)
    return Check("judge", "ok", "; ".join(told))


def _reached(endpoint: Endpoint) -> str:
    """Ask for the list of models. Raises OSError if nobody answers or the key is refused, ValueError without a key."""
    request = urllib.request.Request(f"{endpoint.base_url.rstrip('/')}/models")
    request.add_unredirected_header("Authorization", f"Bearer {endpoint.api_key()}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S):
            pass
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise
        return f"{endpoint.model} at {endpoint.base_url}: answers, but lists no models (HTTP {error.code})"
    return f"{endpoint.model} at {endpoint.base_url}: answers"
