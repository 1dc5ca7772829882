"""Every module and name of an earlier version says what it is called now."""

import copy
import importlib
import importlib.util
import pickle
import re

import pytest

from rltf_verl.moved import FIELDS, MODULES, NAMES, moved
from tests.support.golden_batch import batch

TABLE = dict(moved())
OLD_MODULES = {
    before + word.partition(">")[0] for before, _, words in MODULES for word in words.split()
}
PLACES = {now for _, now, _ in NAMES}


def imported(module: str, name: str) -> object:
    """from module import name"""
    return getattr(__import__(module, fromlist=[name]), name)


def test_nothing_is_said_twice() -> None:
    assert len(TABLE) == len([*moved()])


@pytest.mark.parametrize("old", sorted(OLD_MODULES))
def test_a_module_that_moved_says_so(old: str) -> None:
    line = f"^rltf_verl.{re.escape(old)} is now rltf_verl.{re.escape(TABLE[old])}$"
    package, _, name = f"rltf_verl.{old}".rpartition(".")
    with pytest.raises(ModuleNotFoundError, match=line):
        importlib.import_module(f"{package}.{name}")
    with pytest.raises(ModuleNotFoundError, match=line):
        imported(package, name)
    assert importlib.util.find_spec(f"rltf_verl.{TABLE[old]}")


@pytest.mark.parametrize("old", sorted(TABLE.keys() - OLD_MODULES))
def test_a_name_that_moved_says_so(old: str) -> None:
    module, _, name = f"rltf_verl.{old}".rpartition(".")
    with pytest.raises(ImportError, match=f"is now rltf_verl.{re.escape(TABLE[old])}"):
        imported(module, name)
    place = max((p for p in PLACES if TABLE[old].startswith(f"{p}.")), key=len)
    found = importlib.import_module(f"rltf_verl.{place}")
    for part in TABLE[old].removeprefix(f"{place}.").split("."):
        found = getattr(found, part)


def test_other_names_fail_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'rltf_verl.adapters.traner'"):
        importlib.import_module("rltf_verl.adapters.traner")
    with pytest.raises(AttributeError, match="no attribute 'rowz'"):
        imported("rltf_verl.episode.rows", "rowz")
    assert importlib.util.find_spec("rltf_verl.envs.boxes") is None


@pytest.mark.parametrize("old", FIELDS)
def test_a_field_that_moved_says_so(old: str) -> None:
    name, _, field = old.partition(".")
    rows = copy.deepcopy(pickle.loads(pickle.dumps(batch())))
    owner = {"RowBatch": rows, "EpisodeBatch": rows.episodes}[name]
    with pytest.raises(AttributeError, match=f"^{old} is now {name}.{FIELDS[old]}$"):
        getattr(owner, field)
    assert hasattr(owner, FIELDS[old])
    assert not hasattr(owner, "sezzions")
