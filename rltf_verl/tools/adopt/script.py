"""A launch script as bash reads it: it runs, but only programs that read start (`reader.bash`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rltf_verl.config import ConfigError
from rltf_verl.tools.adopt.command import MODULE, Launch, of_words

READER = Path(__file__).with_name("reader.bash")
READ = 'exec >"$RLTF_ADOPT/log" 2>&1; . "$RLTF_ADOPT/reader.bash" && __rltf_main "$0" "$@"'
LONGEST_READ = 30.0
"""Seconds; a script that waits for a server or a job does not end."""

SHELL_VARIABLES = {"_", "SHLVL", "PWD", "OLDPWD", "RUN", "RLTF_ADOPT", "RLTF_DEPTH", "PYTHONHOME"}
"""Variables that bash or the reading sets."""
OVERRIDE = re.compile(r"[+~]*\w+[./].*=")
UNTOLD = ("bash", "exec", "mkdir", "sh", "sleep", "tee", "trap")
"""Skipped commands that no user misses."""


def read_launch(words: Sequence[str], environ: Mapping[str, str]) -> Launch:
    """The training that a command would start.

    Args:
        words: the command, or a script and its arguments. Overrides that the script does not pass
            on are added.
        environ: variables to run it with.

    Raises:
        ConfigError: it starts no training that is known.
        OSError: the script is not there.
    """
    if words[0].endswith(".sh"):
        Path(words[0]).stat()
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(READER, name)
        subprocess.run(
            ["bash", "-c", READ, str(LONGEST_READ), *words],
            # a Python that started in spite of the reader would end at once, without its library
            env={**environ, "RLTF_ADOPT": name, "PYTHONHOME": name},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        folder = Path(name)
        log = (folder / "log").read_text("utf-8", "replace").strip().split("\n")
        skipped = _items(folder / "skipped")
        files = sorted(folder.glob("launch.*"), key=lambda path: path.stat().st_mtime_ns)
        # each: working directory, number of words, words, variables
        launches = [_items(path) for path in files]
    if not launches:
        end = " ".join(log[-2:])
        raise ConfigError(f"{words[0]}: starts no training as `python3 -m {MODULE}` does; {end}")
    where, count, *items = launches[0]
    started, variables = items[: int(count)], items[int(count) :]
    added = [word for word in words if OVERRIDE.match(word) and word not in started]
    after = dict(item.split("=", 1) for item in variables)
    return replace(
        of_words([*started, *added]),
        where=where,
        exports={
            name: value
            for name, value in after.items()
            if name.isidentifier() and environ.get(name) != value and name not in SHELL_VARIABLES
        },
        unset=sorted(environ.keys() - after - SHELL_VARIABLES),
        notes=[*_notes(len(launches), skipped)],
    )


def _items(path: Path) -> list[str]:
    """Texts that each end with a zero byte."""
    return os.fsdecode(path.read_bytes()).split("\0")[:-1]


def _notes(trainings: int, skipped: Sequence[str]) -> Iterator[str]:
    """Lines on what the script does and the launch does not."""
    if trainings > 1:
        yield f"the script starts {trainings} trainings; this is the first"
    if told := [line for line in dict.fromkeys(skipped) if line.split()[0] not in UNTOLD]:
        yield f"not run, and not in this script; an output `$(…)` is empty: {', '.join(told)}"
