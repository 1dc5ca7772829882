"""Configs copied to anywhere work with an installed package, however verl finds the plugin.

Nightly: `tests/plugin/test_packaging_e2e.py` composes a copy of each recipe in every run.
"""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.recipes.experiments import CONFIGS

pytestmark = pytest.mark.nightly
ROOT = CONFIGS.parents[2]
POLICIES = {
    "discovered": {},
    "named": {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "rltf_verl.plugin"},
}


@pytest.mark.parametrize(
    ("policy", "option"), [("discovered", "--config-dir"), ("named", "--config-path")]
)
def test_a_copied_folder(policy, option, tmp_path) -> None:
    shutil.copytree(CONFIGS, tmp_path / "copy")
    (tmp_path / "empty").mkdir()
    inherited = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("VERL_USE_EXTERNAL", "JUDGE_", "RLTF_"))
    }
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "verl.trainer.main_ppo", option, str(tmp_path / "copy")),
            *("--config-name", "paper", "task=kk", "method=sd", "rltf.distill.weight=0.2"),
            *("--cfg", "job", "--resolve"),
        ],
        cwd=tmp_path / "empty",
        env={**inherited, **POLICIES[policy], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    config = yaml.safe_load(ended.stdout[ended.stdout.index("actor_rollout_ref:") :])
    assert (config["rltf"]["distill"]["weight"], config["rltf"]["feedback"]["style"]) == (
        0.2,
        "short",
    )
    assert config["trainer"]["experiment_name"] == "kk_sd"
    assert config["trainer"]["v1"]["trainer_mode"] == "rltf_sync"
    assert config["rltf"]["feedback"]["endpoint"]["base_url"] == "http://127.0.0.1:8000/v1"
