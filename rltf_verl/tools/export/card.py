"""A model's folder, with its card: the model that training started from, and the run's settings."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltf_verl.redaction import cleaned, hidden, mapped, secrets_here
from rltf_verl.texts import counted, one_line
from rltf_verl.tools.export.checkpoint import BASE, WEIGHTS, Checkpoint, save_weights

if TYPE_CHECKING:  # loads torch
    from rltf_verl.tools.export.gate import Gate

MOST_CHARS = 2000
"""Longest setting that is shown."""

_LOCAL = re.compile(r"\A/(?:[^/\n]+/)+(?=[^/\n]+\Z)")
"""Folders of an absolute path: the card of a published model names none."""
_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def write_model(checkpoint: Checkpoint, out: Path, trust_pickle: bool, gate: Gate | None) -> None:
    """Write a checkpoint's model with its card; `out` appears whole or not at all.

    Raises:
        ValueError: the weights cannot be read, or the gate does not let them pass.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as unfinished:
        folder = Path(unfinished) / "model"
        save_weights(checkpoint, folder, trust_pickle=trust_pickle)
        if gate:
            gate.check(folder)
        text = card(out.name, checkpoint.step, checkpoint.settings())
        (folder / "README.md").write_text(text, "utf-8")
        for weights in folder.glob(WEIGHTS):  # safetensors lets the owner alone read them
            weights.chmod((folder / "README.md").stat().st_mode)
        folder.rename(out)


def card(title: str, step: int, settings: Mapping[str, Any]) -> str:
    """A README.md for the folder. Settings are shown, never read as markup, without secrets and
    folders of this machine: they are published with the folder.

    Args:
        title: the folder's name.
        step: the training step.
        settings: config key -> value, of the checkpoint.
    """
    shown = mapped(cleaned(hidden(settings), secrets_here()), lambda text, _: _LOCAL.sub("", text))
    base = str(shown.get(BASE))
    # a folder on a disk is no model of the hub
    on_hub = f"base_model: {json.dumps(base)}\n" if _HUB.fullmatch(base) else ""
    # on one line, a text cannot end the block
    lines = (one_line(f"{key}: {json.dumps(shown[key])}", MOST_CHARS) for key in sorted(shown))
    return f"""---
library_name: transformers
pipeline_tag: text-generation
{on_hub}tags: [reinforcement-learning, rltf, verl]
---

# {title}

Trained for {counted(step, "step")} with verl and rltf-verl, reinforcement learning from text
feedback ([arXiv 2602.02482](https://arxiv.org/abs/2602.02482)). Its settings:

```yaml
{chr(10).join(lines)}
```
"""
