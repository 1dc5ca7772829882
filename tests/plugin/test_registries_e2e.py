"""Without us there is no trace of us; with us nothing of verl is lost."""

import pytest

from tests.support.registries import OURS, WRAPPED, of_others, python

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def registries() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Of an interpreter without us and of one with us."""
    ways = [
        {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_PLATFORM": ""},
        {"VERL_USE_EXTERNAL_PLUGINS": "auto", "VERL_PLATFORM": "cpu"},
    ]
    without, with_us = of_others(*ways)
    return without, with_us


def test_switched_off_leaves_no_trace(registries) -> None:
    without_us, _ = registries
    for registry, names in OURS.items():
        assert not names & set(without_us[registry]), registry
    assert without_us["wrapped"] == []
    assert without_us["ours"] == []


def test_every_name_is_in_its_registry_and_nothing_of_verl_is_lost(registries) -> None:
    without_us, with_us = registries
    for registry, names in OURS.items():
        assert set(with_us[registry]) == set(without_us[registry]) | names, registry
    assert with_us["wrapped"] == WRAPPED


@pytest.mark.parametrize("module", ["rollout.agent_worker", "training.kept_weights"])
def test_a_worker_of_ray_may_import_its_module_first(module: str) -> None:
    """Without the fork server it has loaded nothing before."""
    assert python(f"import rltf_verl.adapters.{module}; print('loaded')") == "loaded"
