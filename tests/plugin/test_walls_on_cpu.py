"""What a run loads: no commands, and on a GPU nothing of the CPU platform; and what `import verl`
costs and changes for somebody who does not use us. `test_registries_e2e.py` looks at interpreters
of their own.
"""

import pytest
from verl.utils.config import validate_config

from rltf_verl.adapters.startup import checks
from tests.support.configs import composed
from tests.support.registries import python

LOAD = """
import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()):
    import verl.trainer.main_ppo, verl.trainer.ppo.v1, verl.workers.rollout.replica
    import verl.experimental.agent_loop.agent_loop, verl.workers.engine_workers
    import rltf_verl.adapters.driver, rltf_verl.adapters.startup.checks
    import rltf_verl.adapters.rollout.agent_loop, rltf_verl.adapters.rollout.agent_worker
    import rltf_verl.sampler.adapter, rltf_verl.sampler.server
    import rltf_verl.adapters.training.trainer, rltf_verl.adapters.training.kept_weights
print(*sorted({name.split(".")[1] for name in sys.modules if name.startswith("rltf_verl.")}))
"""


@pytest.mark.parametrize(("platform", "has_cpu"), [("", False), ("cpu", True)])
def test_a_run_loads_no_commands_and_the_cpu_platform_only_there(platform, has_cpu) -> None:
    parts = python(LOAD, VERL_PLATFORM=platform).split()
    assert {"adapters", "plugin"} <= set(parts)
    assert "tools" not in parts
    assert ("cpu" in parts) is has_cpu


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
