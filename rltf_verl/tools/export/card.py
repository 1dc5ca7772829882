"""The model card: what the policy learned from, how well it did, and how to use it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.redaction import hidden, mapped, secrets_here
from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.comparison import first_turn_series
from rltf_verl.tools.report.compare.run import read_run

BASE = "actor_rollout_ref.model.path"
SHOWN = {
    "environment": "rltf.env.name",
    "feedback": "rltf.feedback.provider.name",
    "attempts per episode": "rltf.episode.horizon",
    "episodes per problem": "actor_rollout_ref.rollout.n",
    "problems per step": "data.train_batch_size",
    "training data": "data.train_files",
}
"""Row of the card's table -> the key."""
MOST_CHARS = 2000
"""Longest value that is shown."""

_KEY = re.compile(r"[\w.\[\]-]+")
_LOCAL = re.compile(r"\A/(?:[^/\n]+/)+(?=[^/\n]+\Z)")
"""Folders of an absolute path: the card of a published model names none."""
_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_MARKUP = re.compile(r"[\\`\[\]|]")
"""What Markdown reads in running text; `<` and `&` are escaped as in HTML."""


def card(name: str, step: int, settings: Mapping[str, Any], run: Path) -> str:
    """A README.md for the folder. Text of the settings and of the run is shown, never read as
    markup, without secrets and folders of this machine: both are published with the folder.

    Args:
        name: the model's folder.
        step: the training step.
        settings: config key -> value, of the checkpoint.
        run: folder of the run, for its validations.
    """
    settings = {
        key: mapped(hidden(value, key), lambda text, _: _LOCAL.sub("", text))
        for key, value in settings.items()
        if _KEY.fullmatch(key)
    }
    base = settings.get(BASE)
    parts = [_front(base), f"# {Path(name).name}", _origin(base, step, settings)]
    parts += [_numbers(run, step), _use(name), _all_settings(settings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(value: object) -> str:
    """On one line, for Markdown's text and tables."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    # secrets are hidden first: an escaped one would not be found
    return _MARKUP.sub(r"\\\g<0>", html.escape(secrets_here().quote(text, MOST_CHARS), quote=False))


def _front(base: object) -> str:
    # a folder on a disk is no model of the hub
    on_hub = isinstance(base, str) and _HUB.fullmatch(base)
    lines = ["library_name: transformers", "pipeline_tag: text-generation"]
    lines += [f"base_model: {json.dumps(base)}"] if on_hub else []
    return "\n".join(["---", *lines, "tags: [reinforcement-learning, rltf, verl]", "---"])


def _origin(base: object, step: int, settings: Mapping[str, Any]) -> str:
    trained = f"{_plain(base or 'a policy')}, trained for {counted(step, 'step')} with verl"
    if not settings:
        return f"{trained}."
    rows = [("objectives", ", ".join(_objectives(settings)))]
    rows += [(name, _plain(settings[key])) for name, key in SHOWN.items() if key in settings]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows if value)
    return (
        f"{trained} and rltf-verl: reinforcement learning from text feedback"
        f" ([arXiv 2602.02482](https://arxiv.org/abs/2602.02482)).\n\n| | |\n|---|---|\n{table}"
    )


def _objectives(settings: Mapping[str, Any]) -> list[str]:
    """The blocks that have a weight other than 0 and something to train on."""
    end = ".weight"
    weights = {k: v for k, v in settings.items() if k.startswith("rltf.") and k.endswith(end)}
    names = [key[len("rltf.") : -len(end)] for key, value in weights.items() if value]
    providers = [
        str(v) for k, v in settings.items() if k.startswith("rltf.feedback.") and "provider" in k
    ]
    critic = any("policy" in provider for provider in providers)  # alone, or one of several
    return [name for name in names if critic or name != "critique"]


def _numbers(run: Path, step: int) -> str:
    """First-turn accuracy of each validation set: the first one and the last up to `step`."""
    try:
        series = first_turn_series(read_run((run,)))
    except ValueError:  # it has no metrics, or they lie elsewhere
        return ""
    rows = [_row(_plain(name), values, step) for name, values in series.items()]
    rows = [row for row in rows if row]
    head = "First answers, without feedback.\n\n| set | before | after |\n|---|---|---|"
    return "\n".join([f"## Validation\n\n{head}", *rows]) if rows else ""


def _row(name: str, series: Mapping[int, float], step: int) -> str:
    steps = [s for s in series if s <= step]
    if not steps:
        return ""
    first, last = min(steps), max(steps)
    return f"| {name} | {series[first]:.3f} (step {first}) | {series[last]:.3f} (step {last}) |"


def _use(name: str) -> str:
    return f"""## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForCausalLM.from_pretrained("{name}", dtype="auto")
```

```bash
vllm serve {name}
hf upload YOUR_NAME/{Path(name).name} {name}
```"""


def _all_settings(settings: Mapping[str, Any]) -> str:
    if not settings:
        return ""
    secrets = secrets_here()
    lines = "\n".join(
        f"{key}: {secrets.quote(json.dumps(value), MOST_CHARS)}"
        for key, value in sorted(settings.items())
    )
    return f"## Settings that decide what was trained\n\n```yaml\n{lines}\n```"
