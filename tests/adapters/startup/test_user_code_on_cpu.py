"""A user's file that cannot be loaded: refused in one line that names its key."""

from pathlib import Path

import pytest

from rltf_verl.config import ConfigError
from rltf_verl.registry import load


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt", "GeneratorExit"])
def test_a_file_that_raises_when_it_is_imported_is_one_line(tmp_path: Path, error: str) -> None:
    (tmp_path / "mine.py").write_text(f"raise {error}\n")
    with pytest.raises(ConfigError, match=error.partition("(")[0]) as refused:
        load("rltf.env.name", f"{tmp_path}/mine.py:Mine")
    assert refused.value.finding.key == "rltf.env.name"


def test_a_class_that_makes_something_else_is_refused(tmp_path: Path) -> None:
    from rltf_verl.envs import make_env

    (tmp_path / "mine.py").write_text("class Mine:\n    def __new__(cls):\n        return None\n")
    with pytest.raises(ConfigError, match="makes None"):
        make_env(f"{tmp_path}/mine.py:Mine")
