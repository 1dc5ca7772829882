"""A provider and an environment of a user's own: by file, by module, by entry point."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from rltf_verl import registry
from rltf_verl.config import RLTFConfig
from rltf_verl.feedback import has_trait, make_provider
from rltf_verl.types import Feedback
from tests.support.judge.calls import request
from tests.support.methods import objective_of

MINE = '''
from dataclasses import dataclass

from rltf_verl.feedback.base import FeedbackRequest
from rltf_verl.types import Feedback


@dataclass
class Mine:
    """Counts the words of the attempt."""

    limit: int = 10
    name = "mine"
    sees_reference = False
    constant = False

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        words = len(request.turns[-1].attempt.text.split())
        return Feedback(f"{words} words; use at most {self.limit}.", self.name)
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


async def test_a_file_and_a_module(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(mine)

    for where in ("./mine.py:Mine", f"{mine}/mine.py:Mine", "mine:Mine"):
        said = await make_provider(where, limit=3).feedback(request("one two"))
        assert said.text == "2 words; use at most 3."


def test_what_a_provider_counts_may_be_of_numpy_or_missing():
    said = Feedback("no", "mine", np.True_, np.float32(0.5), prompt_tokens=np.int64(5), cached=1)
    assert json.loads(json.dumps(asdict(said))) == asdict(Feedback("no", "mine", True, 0.5)) | {
        "notes": [],
        "prompt_tokens": 5,
        "cached": True,
    }
    assert Feedback("no", "mine", completion_tokens=None).completion_tokens == 0
    for odd in ({"provider": None}, {"prompt_tokens": 5.5}, {"provider": "mine", "cached": "no"}):
        with pytest.raises((TypeError, ValueError)):
            Feedback("no", **{"provider": "mine", **odd})


async def test_a_file_that_imports_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", list(before))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "mine.py").write_text(f"from own_words import LIMIT\n{MINE}".replace("10", "LIMIT"))
    (folder / "own_words.py").write_text("LIMIT = 7\n")
    for _ in range(2):
        assert make_provider(f"{folder}/mine.py:Mine").limit == 7
    assert sys.path == [*before, str(folder)], "once, and behind all that is installed"


@pytest.mark.parametrize(
    ("where", "cause"),
    [
        ("./none.py:Mine", "FileNotFoundError: no such file, seen from"),
        ("./mine.py:Yours", "has no 'Yours'; known: Mine"),
        ("no_such_module:Mine", "No module named 'no_such_module'"),
        ("./broken.py:Mine", "NameError: name 'oops' is not defined"),
        ("./mine.py:dataclass", "is a function; name a class"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(mine: Path, where: str, cause: str) -> None:
    (mine / "broken.py").write_text("oops")
    with pytest.raises(ValueError, match=rf"(?s)rltf\.feedback\.provider='{where}': .*{cause}"):
        make_provider(where)


def test_its_flags_count_as_those_of_ours(mine: Path) -> None:
    (mine / "critic.py").write_text(f"{MINE}    self_written = True\n".replace("Mine", "Critic"))
    for name, written in (("./critic.py:Critic", True), ("./mine.py:Mine", False)):
        block = {"env": {"name": "binary_matrix"}, "feedback": {"provider": name}}
        critique = objective_of(RLTFConfig.from_mapping(block), "critique")
        assert critique.has_effect == written, "a row of the plan"
        paired = {"provider": "paired", "even": {"provider": name}, "odd": {"provider": "verifier"}}
        assert has_trait("self_written", paired) == written


async def test_an_installed_package(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = mine / "words-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: words\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rltf_verl.feedback]\nwords = mine:Mine\n")
    monkeypatch.syspath_prepend(mine)
    monkeypatch.setattr(registry, "installed", registry.installed.__wrapped__)  # without its cache
    assert (await make_provider("words").feedback(request("one"))).provider == "mine"
