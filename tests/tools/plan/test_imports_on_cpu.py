"""What `rltf plan` and `rltf adopt` load: none of verl's loops, engines, servers and trainers."""

from pathlib import Path

from tests.support.plan_runs import GOOD, GROUPS
from tests.support.registries import python

UNNEEDED = {
    *("datasets", "fastapi", "pandas", "peft"),
    *("verl.experimental", "verl.trainer.distillation", "verl.trainer.ppo.v1"),
    *("verl.workers.engine", "verl.workers.rollout", "rltf_verl.adapters.rollout.agent_loop"),
}
COMMANDS = """
import os, sys
from rltf_verl.tools.cli.app import app
os.chdir({folder!r})
ends = []
for words in {commands!r}:
    try:
        app(words)
    except SystemExit as end:
        ends.append(end.code)
print()
print(*ends, *sys.modules)
"""


def test_a_plan_loads_nothing_of_verl_that_only_a_run_needs(home: Path, tmp_path: Path) -> None:
    launch = ["python3", "-m", "verl.trainer.main_ppo", "algorithm.adv_estimator=grpo", *GOOD]
    commands = [
        ["plan", "--config-name=rltf", *GROUPS, *GOOD],
        ["adopt", "-o", str(tmp_path / "run.sh"), *launch, "rltf/hardware=cpu"],
    ]
    printed = python(
        COMMANDS.format(folder=str(home), commands=commands), VERL_PLATFORM="cpu", RAY_ADDRESS=""
    )
    plan, adopt, *loaded = printed.split()
    assert (plan, adopt) == ("0", "0")
    assert {"verl", "rltf_verl.tools.plan.play", "rltf_verl.tools.adopt.checked"} <= set(loaded)
    assert UNNEEDED.isdisjoint(loaded)
