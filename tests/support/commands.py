"""`rltf …` in this process, and a program in another."""

import os
import subprocess
from functools import cache
from typing import Any

from typer import testing
from typer.testing import Result

from rltf_verl.tools.cli.app import app

testing._get_command = cache(testing._get_command)
"""It makes all commands of `rltf` out of the signatures of their functions, which takes longer than
most of them run.
"""


def rltf(*words: object, columns: int = 160) -> Result:
    """What `rltf` does with these words, on a terminal so wide."""
    texts, width = [str(word) for word in words], {"COLUMNS": str(columns)}
    return testing.CliRunner().invoke(app, texts, env=width, catch_exceptions=False)


def ran(*words: object, columns: int = 160) -> Result:
    """The same of a command that ends well."""
    return ended_well(rltf(*words, columns=columns))


def ended_well(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def refused(*words: object) -> str:
    """The line on stderr of a command that a user has to fix."""
    return refusal_of(rltf(*words))


def refusal_of(result: Result) -> str:
    """One line on stderr, after what a command may say of its loading, and exit status 1."""
    lines = [line for line in result.stderr.splitlines() if not line.endswith("…")]
    assert (result.exit_code, len(lines)) == (1, 1), result.output
    assert lines[0].startswith("rltf: ")
    return f"{lines[0]}\n"


def with_open_input(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program whose input stays open, as a terminal's does. Raises TimeoutExpired if it hangs."""
    read, write = os.pipe()
    try:
        return subprocess.run(
            words, stdin=read, capture_output=True, text=True, timeout=120, **options
        )
    finally:
        os.close(read)
        os.close(write)
