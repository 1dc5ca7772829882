"""What `rltf doctor` says about judges: whether a run could ask them. Costs one short reply of
each.
"""

from __future__ import annotations

from rltf_verl.adapters.doctor.process import Check
from rltf_verl.adapters.startup.endpoints import unanswered
from rltf_verl.adapters.startup.machine import check_judges
from rltf_verl.episode.parts import Parts


def judge_check(parts: Parts) -> Check:
    """One line about the judges that a run's provider, leak guard and environment ask."""
    provider = f"rltf.feedback.provider={parts.config.feedback.provider.name}"
    judges = {judge.settings: judge for judge in parts.judges}.values()
    if not judges:
        return Check("judge", "ok", f"none configured ({provider} asks no model)")
    try:
        check_judges(parts.judges)
        silent = list(unanswered(parts.judges))
    except ValueError as error:
        return Check("judge", "failed", provider, str(error))
    if silent:
        blocks = " or ".join(dict.fromkeys(f"{own.judge.block}.endpoint" for own in silent))
        fix = f"start it, or correct {blocks} (base_url, model, api_key_env)"
        return Check("judge", "failed", "; ".join(map(str, silent)), fix)
    named = (judge.settings.endpoint for judge in judges)
    return Check("judge", "ok", "; ".join(f"{e.model} at {e.base_url}: answers" for e in named))
