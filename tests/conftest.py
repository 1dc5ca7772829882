"""What all tests share: how much is tried, which come first, and what the end says.

Property tests have no deadline, since a busy machine is no finding, and one set of examples.
`--hypothesis-profile=nightly` tries as many as each test asks for (`tests/support/effort.py`),
and others each night.
"""

import gc
import logging

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from tests.support.skips import lines_of

gc.disable()  # until all is imported

settings.register_profile("nightly", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("quick")

LONGEST = (
    "test_training_e2e",
    "test_packaging_e2e",
    "test_console_and_end_e2e",
    "test_view_e2e",
    "test_judge_e2e",
    "test_reward_function_e2e",
    "test_teacher_e2e",
    "test_actor_engine_e2e",
    "test_logit_engine_e2e",
    "test_presets_on_cpu",
    "test_parity_presets_on_cpu",
)


@pytest.fixture
def verl_config():
    """`key=value` overrides as on the command line -> the real verl configuration, composed as
    `main_ppo --config-name=rltf_sd` composes it, one of its own.
    """
    import yaml
    from omegaconf import OmegaConf

    from tests.support.configs import composed

    def make(*overrides, hardware="cpu"):
        config = composed(
            "rltf_sd", f"rltf/hardware={hardware}", "actor_rollout_ref.model.path=/nowhere"
        )
        OmegaConf.set_struct(config, False)
        for override in overrides:
            key, _, value = override.partition("=")
            OmegaConf.update(config, key, yaml.safe_load(value))
        return config

    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, so that no process waits for them at the end (`--dist loadfile
    --no-loadscope-reorder`).
    """
    first = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: first.get(item.path.stem, len(first)))


def pytest_collection_finish() -> None:
    """torch and verl are half a million objects. None of them goes away, and looking through them
    for garbage as often as Python does takes a quarter of the time of all tests.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
    # Before and after each phase of a test pytest visits every logger that does not propagate.
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch") and isinstance(logger, logging.Logger):
            logger.propagate = True


def pytest_sessionfinish() -> None:
    """pytest then looks for garbage several times, half a second each."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """One line per kind of skip. A green run says what it did not see."""
    reports = terminalreporter.getreports("skipped")
    reasons = [report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]
    for line in lines_of(reasons):
        terminalreporter.write_line(line)
