"""What `import verl` costs and changes for somebody who does not use us, and what it registers for
who does; `test_registries_e2e.py` looks at interpreters of their own.
"""

import pytest
from verl.utils.config import validate_config

from rltf_verl.adapters.startup import checks
from tests.support.configs import composed
from tests.support.registries import python

HEAVY = [
    "torch",
    "verl",
    "ray",
    "transformers",
    "tensordict",
    "omegaconf",
    "hydra",
    "numpy",
    "jinja2",
    "pyarrow",
]


def test_the_entry_point_imports_nothing_heavy() -> None:
    loaded = python(
        f"import rltf_verl.plugin, sys; print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert loaded == "[]"


def test_a_config_without_our_block_passes_through(monkeypatch) -> None:
    """Stock verl configs get verl's own verdict and none of our checks."""
    monkeypatch.delattr(checks, "check_driver")
    config = composed(
        "ppo_trainer", "data.train_batch_size=7", "actor_rollout_ref.actor.ppo_mini_batch_size=9"
    )
    before = str(config)
    with pytest.raises(AssertionError, match="real_train_batch_size"):
        validate_config(config, use_reference_policy=False, use_critic=False)
    assert str(config) == before
