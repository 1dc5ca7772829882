"""A folder that looks like a model: config, tokenizer, and weights that nobody reads."""

import json
import shutil
from pathlib import Path

POLICY = Path(__file__).parents[3] / "recipes" / "demo" / "policy"


def tiny_model(
    folder: Path, context: int = 40_000, *, template: bool = True, window: int | None = None
) -> Path:
    """The demo's policy, which reads characters, with another context and a file for weights.

    Args:
        folder: made here.
        context: `max_position_embeddings`.
        template: its tokenizer has a chat template.
        window: `sliding_window`, of all layers.
    """
    shutil.copytree(POLICY, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").touch()
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"max_position_embeddings": context, "sliding_window": window}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    if not template:
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text("utf-8"))
        settings.pop("chat_template", None)
        path.write_text(json.dumps(settings), "utf-8")
    return folder
