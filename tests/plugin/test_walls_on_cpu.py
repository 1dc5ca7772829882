"""What a run loads: no commands, and on a GPU nothing of the CPU platform."""

import pytest

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
