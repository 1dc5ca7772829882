"""The script of the first hour on a GPU: its order, its stops, and on the CPU all that a CPU can
run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rltf_verl.tools.data.build import build_parquet
from tests.recipes.composing import RECIPES, program

POLICY = RECIPES / "demo" / "policy"
HOUR = program("rltf/first_hour.py")


def step(**numbers) -> dict:
    return {"step": 1, "data": {"timing_s/step": 2.0, **numbers}}


@pytest.mark.parametrize(
    ("records", "surprise"),
    [
        ([step(), step()], ""),
        ([{"step": 0, "data": {"val-core/x/acc/mean@1": 0.1}}, step(), step()], ""),
        ([step()], "1 training steps instead of 2"),
        ([], "0 training steps instead of 2"),
        ([step(), step(**{"actor/loss": float("nan")})], "step 2: actor/loss is nan"),
        (
            [step(**{"training/rollout_actor_probs_pearson_corr": 0.4}), step()],
            "step 1: sampler and actor agree to 0.400 only",
        ),
    ],
)
def test_the_first_surprise_in_a_runs_metrics(tmp_path, records, surprise) -> None:
    metrics = tmp_path / "metrics.jsonl"
    if records:
        metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert HOUR.look(metrics, 2)[0] == surprise


@pytest.mark.parametrize(
    ("steps", "script", "surprise"),
    [
        (0, "sleep 60", "no end"),
        (2, "sleep 60", "nothing new in metrics.jsonl"),
        (2, "for i in 1 2 3 4 5 6; do sleep 0.7; echo {} >> $1; done; exit 3", "it ended with 3"),
        (0, "exit 0", ""),
    ],
)
def test_the_limit_is_for_the_start_and_for_each_step(
    tmp_path, monkeypatch, steps, script, surprise
) -> None:
    """The steps of the third take longer than the limit together."""
    monkeypatch.setattr(HOUR, "POLL_S", 0.05)
    stage = HOUR.Stage("x", [], 3 / 60, steps=steps)
    metrics = tmp_path / "metrics.jsonl"
    process = subprocess.Popen(["bash", "-c", script, "bash", str(metrics)])
    try:
        assert HOUR.surprise_of(process, stage, metrics).startswith(surprise)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("broken", [None, "sglang_2_steps"])
def test_stages_come_cheapest_first_and_stop_at_a_surprise(tmp_path, broken) -> None:
    played = []

    def play(stage, out):
        played.append(stage)
        (out / stage.name).mkdir(exist_ok=True)
        (out / stage.name / "log.txt").write_text("no kernel image\n")
        return HOUR.Outcome(stage, 60.0, "it ended with 1" if stage.name == broken else "")

    words = ["--engines", "vllm", "sglang", "--out", str(tmp_path), "--", "data.seed=3"]
    assert HOUR.main(words, play) == (1 if broken else 0)
    names = ["doctor", "data", "plan", "vllm_2_steps", "sglang_2_steps", "vllm_30_steps"]
    assert [stage.name for stage in played] == (names[:5] if broken else names)
    assert all("data.seed=3" in stage.command for stage in played[2:])
    text = (tmp_path / "report.md").read_text()
    assert ("no kernel image" in text) == bool(broken)
    assert f"| {played[-1].name} | 1.0 | {'it ended with 1' if broken else 'ok'} |" in text


def test_the_report_names_the_package_that_is_imported(tmp_path, monkeypatch) -> None:
    for place, number in (("first", "1.0"), ("second", "2.0")):
        folder = tmp_path / place / f"vllm-{number}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n")
    monkeypatch.setattr(sys, "path", [*(str(tmp_path / p) for p in ("first", "second")), *sys.path])
    assert "* vllm 1.0" in HOUR.machine().splitlines()


@pytest.mark.nightly
@pytest.mark.e2e
def test_on_a_cpu_all_stages_pass(tmp_path) -> None:
    """The CPU's engine in the place of vLLM, a tiny policy, few problems; two engines of one
    kind.
    """
    compact = {"style": "compact", "n_people": 3, "depth": 2, "width": 2}
    build_parquet("knights_knaves", tmp_path / "data" / "kk", 0, 128, 4, **compact)
    search = f"['pkg://verl.trainer.config','pkg://hydra_configs.rltf_verl','file://{RECIPES}/smoke/config']"
    words = [
        f"hydra.searchpath={search}",
        "+smoke=knights_knaves",
        "rltf.episode.revise=compact_guide",
        "data.max_prompt_length=480",
        "data.max_response_length=20",
        "data.train_batch_size=4",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.rollout.n=2",
        "actor_rollout_ref.rollout.name=transformers",
        "trainer.default_local_dir=${oc.env:OUT}",
    ]
    options = ["--engines", "vllm", "--tune", "full", "--model", POLICY, "--out", tmp_path]
    command = [sys.executable, RECIPES / "rltf" / "first_hour.py", *options, "--", *words]
    variables = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "RLTF_TINY_POLICY": str(POLICY),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert ended.returncode == 0, report
    assert "vllm_30_steps" in report
    assert "held out" in report
    assert (tmp_path / "page.html").stat().st_size > 10_000
