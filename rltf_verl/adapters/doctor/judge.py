"""What `rltf doctor` says about judges: whether a run could ask them. Costs no tokens."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException

from rltf_verl.adapters.doctor.process import Check, describe
from rltf_verl.episode.parts import Parts
from rltf_verl.judge.client import require_packages
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.settings import Endpoint, SettingError
from rltf_verl.redaction import secrets_here

PATIENCE_S = 10.0


def judge_check(parts: Parts) -> Check:
    """One line about the judges that a run's provider, leak guard and environment ask."""
    provider = f"rltf.feedback.provider={parts.config.feedback.provider.name}"
    judges = {judge.settings: judge for judge in parts.judges}.values()
    if not judges:
        return Check("judge", "ok", f"none configured ({provider} asks no model)")
    try:
        require_packages()
        secrets = secrets_here(map(_key, judges))
        answers = [_reached(judge.settings.endpoint) for judge in judges]
    except ValueError as error:
        return Check("judge", "failed", provider, str(error))
    except (OSError, HTTPException) as error:
        blocks = " or ".join(dict.fromkeys(f"{judge.block}.endpoint" for judge in judges))
        urls = ", ".join(judge.settings.endpoint.base_url for judge in judges)
        what = secrets.quote(describe(error))  # an endpoint may quote the key
        fix = f"start it, or correct {blocks} (base_url, api_key_env)"
        return Check("judge", "failed", f"{urls}: {what}", fix)
    return Check("judge", "ok", "; ".join(answers))


def _key(judge: Judge) -> str:
    try:
        return judge.settings.endpoint.api_key()
    except SettingError as error:
        raise error.under(judge.block) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an error."""

    def redirect_request(self, *_: object) -> None:
        """None: not followed."""


def _reached(endpoint: Endpoint) -> str:
    """Ask for the list of models.

    Raises:
        OSError: nobody answers, the key is refused, or it is elsewhere: a run does not follow
            redirects either.
        SettingError: no key.
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
