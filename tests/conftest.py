"""What all tests share: how much is tried, and which tests share a process.

Property tests have no deadline, since a busy machine is no finding. `--hypothesis-profile=nightly`
tries as much as each test asks for (`tests/support/effort.py`).
"""

import pytest
from hypothesis import settings

settings.register_profile("nightly", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile("quick")

COMPOSE_ALL_PRESETS = (
    "test_golden_prompts_on_cpu",
    "test_presets_on_cpu",
    "test_parity_presets_on_cpu",
)
LONGEST = ("test_training_e2e", "test_packaging_e2e", "test_judge_e2e", "test_modes_e2e")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` a file's tests share a process, and so do files that compose the same
    configs. The longest files come first, so that no process waits for them at the end.
    """
    first = {name: place for place, name in enumerate((*LONGEST, *COMPOSE_ALL_PRESETS))}
    items.sort(key=lambda item: first.get(item.path.stem, len(first)))
    for item in items:
        name = item.path.stem
        item.add_marker(pytest.mark.xdist_group("presets" if name in COMPOSE_ALL_PRESETS else name))
