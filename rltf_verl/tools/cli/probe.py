"""`rltf probe`: what a base model's episodes say about a run, before it is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import (
    AsJson,
    RunConfig,
    echo_json,
    episodes_of,
    settings_of,
    tell,
)


def probe(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of an evaluation or a run, or its episode log."),
    ],
    options: Annotated[
        list[str],
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help=(
                "data.train_batch_size, data.max_prompt_length, data.max_response_length,"
                " actor_rollout_ref.rollout.n of the run to come; env.KEY, feedback.KEY,"
                " episode.KEY that the folder does not hold."
            ),
        ),
    ] = [],  # noqa: B006  typer copies it
    step: Annotated[int | None, typer.Option(help="The first training step if not given.")] = None,
    config: RunConfig = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a run is worth it, what to change first and which method fits, by the episodes
    of an evaluation of the base model, or of a run's first step. Asks no model.

    E.g. rltf probe outputs/eval data.train_batch_size=32 data.max_prompt_length=2048
    """
    from rltf_verl.runlog.files import log_folder
    from rltf_verl.runlog.turns import grader_trouble
    from rltf_verl.tools.evaluate.probe import probe_of
    from rltf_verl.tools.report.probe import show

    records = episodes_of(folder, step)
    records = [record for record in records if record["split"] == "train"] or records
    first = min(record["step"] for record in records)
    records = [record for record in records if record["step"] == first]
    trouble, _ = grader_trouble(records)
    if trouble is not None:
        tell(trouble)
    made = probe_of(settings_of(options), log_folder(folder), records, config, tell)
    if as_json:
        echo_json(show.as_json(made))
    else:
        show.show(made)
