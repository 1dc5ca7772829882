"""skills/rltf-verl/SKILL.md, AGENTS.md and docs/coming_from.md: their commands run, their files and
keys exist.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import runs
from tests.support.log_records import line, write
from tests.support.run_files import run
from tests.support.verl_rows import verl_row, write_rows

COMING = (
    (runs.ROOT / "docs" / "coming_from.md").read_text("utf-8").partition("\n## verl's inter")[0]
)
PAGES = {
    "skill": "".join(
        (runs.ROOT / name).read_text("utf-8") for name in ("skills/rltf-verl/SKILL.md", "AGENTS.md")
    ),
    "coming from": COMING,
}
(REWARD,) = re.findall(r"```python\n(.*?)```", COMING, re.S)
RUN = """export CACHE="a b"
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    data.train_files=data.parquet data.val_files=data.parquet data.train_batch_size=1 \\
    data.max_prompt_length=100 data.max_response_length=20 actor_rollout_ref.model.path=$MODEL \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 custom_reward_function.path=reward.py \\
    rltf/hardware=cpu rltf.episode.quote=none rltf.episode.revise=compact_guide "$@"
"""
PRINTER = '#!/bin/sh\necho "$@" > {}.words\n'
RLTF = f"""#!/bin/sh
[ "$1" = doctor ] && shift && echo "$@" > doctor.words && exit
[ "$1" = plan ] && echo "$@" > plan.words
exec {sys.executable} -m rltf_verl.tools.cli.app "$@"
"""
"""Keeps the words of `doctor` and the trainer, which start Ray; `plan` composes and checks them."""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's folder: a run of verl's GRPO, and what a run and two comparisons left."""
    extra = {"index": 0, "answer": "1 + 11 = 12\n#### 12"}
    write_rows(tmp_path / "data.parquet", [verl_row("012\n101", "12", extra_info=extra)])
    (tmp_path / "run.sh").write_text(RUN, "utf-8")
    (tmp_path / "reward.py").write_text(REWARD, "utf-8")
    write(tmp_path / "checkpoints" / "PROJECT" / "RUN" / "episodes", [line("1", "42")])
    for file in ("grpo/metrics.jsonl", "sd/metrics.jsonl", "metrics.jsonl"):
        run(tmp_path / file, [0.1, 0.9])
    (tmp_path / "bin").mkdir()
    for name, text in (("rltf", RLTF), ("python3", PRINTER.format("run"))):
        (tmp_path / "bin" / name).write_text(text, "utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_all_its_commands_from_a_users_run_to_the_comparison(user: Path, page: str) -> None:
    commands = "".join(re.findall(r"```bash\n(.*?)```", PAGES[page], re.S))
    environ = {
        **os.environ,
        "PATH": f"{user}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(runs.ROOT),
        "MODEL": str(runs.POLICY),
        "VERL_PLATFORM": "cpu",
    }
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=user, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    planned, checked, started = (
        (user / f"{name}.words").read_text("utf-8").split() for name in ("plan", "doctor", "run")
    )
    assert planned[1:] == checked == started[2:]
    assert "rltf/env=reward_function" in planned
    assert "Check each step of your calculation." in " ".join(done.stdout.split())
    exports = re.findall(r"^export (\w+)=", (user / "run_rltf.sh").read_text("utf-8"), re.M)
    assert exports == ["CACHE"], "and nothing that importing torch and Ray sets"
    for name in ("page.html", "compare/compare.md"):
        assert (user / name).is_file(), name
