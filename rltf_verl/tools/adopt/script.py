"""A launch script, read by bash: it runs, but only programs that read start (`reader.bash`)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rltf_verl.config import ConfigError
from rltf_verl.tools.adopt.command import MODULE, Launch, is_known, of_words

READER = Path(__file__).with_name("reader.bash")
READ = '. "$RLTF_ADOPT/reader.bash" || exit; . "$0"'
"""Code for bash; the script is `$0`, its arguments follow."""
LONGEST_READ = 60
"""Seconds; a script that waits for a server or a job does not end."""

SHELL_VARIABLES = {"_", "SHLVL", "PWD", "OLDPWD", "RUN", "RLTF_ADOPT", "PYTHONHOME"}
"""Variables that bash or the reading sets."""
UNTOLD = ("bash", "exec", "sh", "sleep", "tee", "trap", "wait")
"""Skipped commands that no user misses."""


def read_script(script: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> Launch:
    """The launch that a script would start.

    Args:
        script: the script.
        arguments: its arguments. Overrides that it does not pass on are added to the launch.
        environ: variables to run it with.

    Raises:
        ConfigError: it starts no training that is known.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        end = _run_reader(script, arguments, environ, folder)
        files = sorted(folder.glob("launch.*"), key=lambda path: path.stat().st_mtime_ns)
        found = [_items(path) for path in files]
        skipped = _items(folder / "skipped")
    # each: working directory, number of words, words, variables
    calls = [(items[0], items[2 : 2 + int(items[1])], items[2 + int(items[1]) :]) for items in found]
    if not calls:
        raise ConfigError(f"{script}: starts no training of verl, `python3 -m {MODULE}`; {end}")
    known = [call for call in calls if is_known(call[1])] or calls[:1]
    where, words, variables = known[0]
    added = [word for word in arguments if re.match(r"[+~]*\w+[./].*=", word) and word not in words]
    after = dict(item.split("=", 1) for item in variables)
    return replace(
        of_words([*words, *added]),
        where=where,
        exports={
            name: value
            for name, value in after.items()
            if name.isidentifier() and environ.get(name) != value and name not in SHELL_VARIABLES
        },
        unset=sorted(environ.keys() - after - SHELL_VARIABLES),
        notes=[*_notes(len({tuple(call[1]) for call in known}), skipped)],
    )


def _run_reader(
    script: Path, arguments: Sequence[str], environ: Mapping[str, str], folder: Path
) -> str:
    """Run a script under `reader.bash`, which writes to the folder. Returns how it ended."""
    shutil.copy(READER, folder)
    # should any Python start in spite of the reader, it ends at once: it finds no library
    reading = {"RLTF_ADOPT": str(folder), "PYTHONHOME": str(folder)}
    name = str(script) if "/" in str(script) else f"./{script}"
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            ["bash", "-c", READ, name, *arguments],
            env={**environ, **reading},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        end = f"it ended with status {running.wait(LONGEST_READ)}"
    except subprocess.TimeoutExpired:
        end = f"it was stopped after {LONGEST_READ} s"
    finally:
        with suppress(ProcessLookupError):  # also what it left in the background
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    lines = (folder / "log").read_text("utf-8", "replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"{end}: {last}" if last else end


def _items(path: Path) -> list[str]:
    """Texts that each end with a zero byte."""
    return os.fsdecode(path.read_bytes()).split("\0")[:-1] if path.exists() else []


def _notes(trainings: int, skipped: Sequence[str]) -> Iterator[str]:
    """Lines on what was not read.

    Args:
        trainings: number of different ones.
        skipped: per command, two texts: `1` if the script takes what it prints, and the command.
    """
    if trainings > 1:
        yield f"the script starts {trainings} trainings; this is the first"
    commands = dict.fromkeys(zip(skipped[1::2], skipped[::2], strict=True))
    told = [pair for pair in commands if pair[0].split()[0] not in UNTOLD]
    for taken, line in (("", "not run, and not in this script"), ("1", "not run, its value is empty")):
        names = [name for name, value in told if value == taken]
        if names:
            yield f"{line}: {', '.join(names)}"
