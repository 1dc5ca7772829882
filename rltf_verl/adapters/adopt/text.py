"""An adopted run as the script that `rltf adopt` prints."""

from __future__ import annotations

import shlex

from rltf_verl.adapters.adopt.adoption import Adopted

MODULE = "verl.trainer.main_ppo"


def script_of(adopted: Adopted, source: str) -> str:
    """A script that bash runs; what changed, and why, stands in it as comments. The variable RUN
    names another program for the same words, as in `RUN="rltf plan" bash run_rltf.sh`.

    Args:
        adopted: the run.
        source: what was adopted.
    """
    groups = [word for word in adopted.overrides if _is_ours(word)]
    rest = [word for word in adopted.overrides if not _is_ours(word)]
    launch = adopted.launch
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"# `rltf adopt` of {source}: it composes. Checked: {', '.join(adopted.checked)}.",
            *_comments("Changed", adopted.changes),
            *_comments("To know", adopted.notes),
            *([f"cd {shlex.quote(launch.change_to)}"] if launch.change_to else []),
            *(f"export {k}={shlex.quote(v)}" for k, v in sorted(launch.exports.items())),
            f"${{RUN:-python3 -m {MODULE}}} --config-name=rltf {shlex.join(groups)} \\",
            *(f"    {shlex.quote(word)} \\" for word in rest),
            '    "$@"',
        ]
    )


def _is_ours(word: str) -> bool:
    return word.startswith(("rltf/", "model_engine="))


def _comments(title: str, lines: list[str]) -> list[str]:
    return [f"# {title}:", *(f"#   {' '.join(line.split())}" for line in lines)] if lines else []
