"""`rltf …` in this process."""

from __future__ import annotations

from functools import cache

from typer import testing
from typer.testing import Result

from rltf_verl.tools.cli.app import app

testing._get_command = cache(testing._get_command)
"""It makes all commands of `rltf` out of the signatures of their functions, which takes longer than
most of them run.
"""


def rltf(*words: object, columns: int = 160) -> Result:
    """What `rltf` does with these words, on a terminal so wide."""
    told, width = [str(word) for word in words], {"COLUMNS": str(columns)}
    return testing.CliRunner().invoke(app, told, env=width, catch_exceptions=False)
