"""What `rltf plan` and `rltf adopt` load: none of verl's loops, engines, servers and trainers."""

from pathlib import Path

from tests.support.plan_runs import GOOD, GROUPS
from tests.support.registries import python

UNNEEDED = {
    *("datasets", "fastapi", "pandas", "peft"),
    *("verl.experimental", "verl.trainer.distillation", "verl.trainer.ppo"),
    *("verl.workers.engine", "verl.workers.rollout", "rltf_verl.adapters.rollout.agent_loop"),
}
PLAN = """
import os, sys
import rltf_verl.tools.adopt.adoption
from rltf_verl.tools.cli.app import app
os.chdir({folder!r})
try:
    app({words!r})
except SystemExit as end:
    print()
    print(end.code, *sys.modules)
"""


def test_a_plan_loads_nothing_of_verl_that_only_a_run_needs(home: Path) -> None:
    words = ["plan", "--config-name=rltf", *GROUPS, *GOOD]
    code = PLAN.format(folder=str(home), words=words)
    status, *loaded = python(code, VERL_PLATFORM="cpu", RAY_ADDRESS="").split()
    assert status == "0"
    assert {"verl", "rltf_verl.tools.plan.play", "rltf_verl.tools.adopt.checked"} <= set(loaded)
    assert UNNEEDED.isdisjoint(loaded)
