"""The notebook of the first steps: its code cells, one after the other, in a copy of the clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.recipes.composing import RECIPES

NOTEBOOK = RECIPES / "rltf" / "first_steps.ipynb"


@pytest.mark.e2e
@pytest.mark.nightly
def test_its_cells_train_and_print_a_result(tmp_path: Path) -> None:
    shutil.copytree(RECIPES / "demo", tmp_path / "recipes" / "demo")
    page = json.loads(NOTEBOOK.read_text("utf-8"))
    cells = [cell for cell in page["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in cells if cell["outputs"]], "clear outputs before a commit"
    (tmp_path / "cells.py").write_text("\n\n".join("".join(cell["source"]) for cell in cells))
    with tempfile.TemporaryDirectory(prefix="rltf") as ray_dir:  # short: Ray puts sockets in it
        env = {**os.environ, "RAY_TMPDIR": ray_dir}
        command = [sys.executable, "cells.py"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "step 8: " in done.stdout
