"""What `rltf doctor` says about judges: whether a run could ask them. Costs no tokens."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException

from rltf_verl.adapters.doctor.process import Check, describe
from rltf_verl.config import RLTFConfig
from rltf_verl.episode.provider import judged_parts
from rltf_verl.judge.client import require_packages
from rltf_verl.judge.gateway import gateways_of
from rltf_verl.judge.settings import Endpoint
from rltf_verl.redaction import secrets_here

PATIENCE_S = 10.0


def judge_check(config: RLTFConfig) -> Check:
    """One line about the judges that a run's provider, leak guard and environment ask."""
    provider = config.feedback.provider
    try:
        endpoints = [s.endpoint for s in gateways_of(lambda: judged_parts(config))]
        if not endpoints:
            return Check(
                "judge",
                "ok",
                f"none configured (rltf.feedback.provider={provider.name} asks no model)",
            )
        require_packages()
        secrets = secrets_here(endpoint.api_key() for endpoint in endpoints)
        told = [_reached(endpoint) for endpoint in endpoints]
    except ValueError as error:
        return Check("judge", "failed", f"rltf.feedback.provider={provider.name}", str(error))
    except (OSError, HTTPException) as error:
        fix = "start it, or mend rltf.feedback.endpoint (base_url, api_key_env)"
        what = secrets.quote(describe(error))  # an endpoint may quote the key
        return Check("judge", "failed", f"{', '.join(e.base_url for e in endpoints)}: {what}", fix)
    return Check("judge", "ok", "; ".join(told))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an error."""

    def redirect_request(self, *_: object) -> None:
        """None: not followed."""


def _reached(endpoint: Endpoint) -> str:
    """Ask for the list of models.

    Raises:
        OSError: nobody answers, the key is refused, or it is elsewhere: a run does not follow
            redirects either.
        ValueError: no key.
    """
    request = urllib.request.Request(f"{endpoint.base_url.rstrip('/')}/models")
    request.add_unredirected_header("Authorization", f"Bearer {endpoint.api_key()}")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=PATIENCE_S):
            pass
    except urllib.error.HTTPError as error:
        if error.code in (401, 403) or 300 <= error.code < 400:
            raise
        return (
            f"{endpoint.model} at {endpoint.base_url}: answers, but lists no models (HTTP"
            f" {error.code})"
        )
    return f"{endpoint.model} at {endpoint.base_url}: answers"
