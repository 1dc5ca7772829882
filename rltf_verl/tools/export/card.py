"""The model card: what the policy learned from, how well it did, and how to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.quantity import first_turn_series
from rltf_verl.tools.report.compare.run import Series, read_run

BASE = "actor_rollout_ref.model.path"
SHOWN = {
    "environment": "rltf.env.name",
    "feedback": "rltf.feedback.provider.name",
    "attempts per episode": "rltf.episode.horizon",
    "episodes per problem": "actor_rollout_ref.rollout.n",
    "problems per step": "data.train_batch_size",
    "training data": "data.train_files",
}
"""What the card's table says -> the key."""


def card(name: str, step: int, settings: Mapping[str, Any], run: Path) -> str:
    """A README.md for the folder.

    Args:
        name: the model's folder.
        step: the training step.
        settings: config key -> value, of the checkpoint.
        run: folder of the run, for its validations.
    """
    base = settings.get(BASE)
    parts = [_front(base), f"# {Path(name).name}", _origin(base, step, settings)]
    parts += [_numbers(run, step), _use(name), _all_settings(settings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front(base: object) -> str:
    # a folder on somebody's disk is no model of the hub
    known = isinstance(base, str) and base.count("/") == 1 and not base.startswith((".", "/", "~"))
    lines = ["library_name: transformers", "pipeline_tag: text-generation"]
    lines += [f"base_model: {json.dumps(base)}"] if known else []
    return "\n".join(["---", *lines, "tags: [reinforcement-learning, rltf, verl]", "---"])


def _origin(base: object, step: int, settings: Mapping[str, Any]) -> str:
    start = f"`{base}`" if base else "a policy"
    said = f"{start}, trained for {counted(step, 'step')} with verl"
    if not settings:
        return f"{said}."
    rows = [("objectives", ", ".join(_objectives(settings)))]
    rows += [(name, _value(settings[key])) for name, key in SHOWN.items() if key in settings]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows if value)
    return (
        f"{said} and rltf-verl: reinforcement learning from text feedback"
        f" ([arXiv 2602.02482](https://arxiv.org/abs/2602.02482)).\n\n| | |\n|---|---|\n{table}"
    )


def _objectives(settings: Mapping[str, Any]) -> list[str]:
    """The blocks that have a weight other than 0 and something to train on."""
    ends = ".weight"
    weights = {k: v for k, v in settings.items() if k.startswith("rltf.") and k.endswith(ends)}
    found = [key[len("rltf.") : -len(ends)] for key, value in weights.items() if value]
    said = [
        str(v) for k, v in settings.items() if k.startswith("rltf.feedback.") and "provider" in k
    ]
    critic = any("policy" in who for who in said)  # alone, or as one of several providers
    return [name for name in found if critic or name != "critique"]


def _numbers(run: Path, step: int) -> str:
    """First-turn accuracy of each validation set: the first one and the last up to `step`."""
    try:
        found = first_turn_series(read_run((run,)))
    except ValueError:  # it has no metrics, or they lie elsewhere
        return ""
    rows = [_row(name, series, step) for name, series in found.items()]
    rows = [row for row in rows if row]
    head = "First answers, without feedback.\n\n| set | before | after |\n|---|---|---|"
    return "\n".join([f"## Validation\n\n{head}", *rows]) if rows else ""


def _row(name: str, series: Series, step: int) -> str:
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
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in sorted(settings.items()))
    return f"## Settings that decide what was trained\n\n```yaml\n{lines}\n```"


def _value(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
