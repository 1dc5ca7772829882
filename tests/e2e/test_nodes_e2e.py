"""Where else the real trainer runs: on several workers and in other micro-batches; on a Ray cluster
of two nodes, joined by its address as one would join `ray start`'s; in the notebook.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import recorded, runs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
SAME = 1e-5
LOSSES = ("actor/pg_loss", "rltf/distill/loss", "rltf/feedback_modeling/loss", "rltf/imitate/loss")
ELSEWHERE = [
    "~ray_kwargs.ray_init.num_cpus",
    "~ray_kwargs.ray_init.num_gpus",
    "~ray_kwargs.ray_init.include_dashboard",
]
"""What `rltf/hardware=cpu` asks of a Ray that it starts itself; docs/scale.md names them."""


@contextmanager
def cluster(num_nodes: int, folder: Path) -> Iterator[str]:
    """Its address. Workers have the environment of their node, as with `ray start`."""
    ray_dir = tempfile.mkdtemp(prefix="rltf")
    here = Path(__file__).parent
    env = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "RAY_TMPDIR": ray_dir,
        "OMP_NUM_THREADS": "1",
        "RLTF_RECORD_DIR": str(folder / "record"),
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        "VERL_USE_EXTERNAL_MODULES": "recorder",
        "PYTHONPATH": os.pathsep.join([str(here), str(runs.ROOT)]),
    }
    command = [sys.executable, str(here / "cluster.py"), str(num_nodes)]
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)
        shutil.rmtree(ray_dir, ignore_errors=True)


def losses(run: runs.Run) -> dict[str, float]:
    first, *_ = run.metrics()
    return {name: first["data"][name] for name in LOSSES}


def answers(run: runs.Run) -> list[tuple[list[int], list[int]]]:
    return sorted((r["prompts"].tolist(), r["responses"].tolist()) for r in recorded.rows(run, 1))


def micro_batches(size: int) -> list[str]:
    return [
        "actor_rollout_ref.actor.use_dynamic_bsz=false",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={size}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={size}",
    ]


WORKERS = "trainer.n_gpus_per_node=2"
WAYS = {
    "alone": [],
    "two_workers": [WORKERS],
    "packed_by_256_tokens": ["actor_rollout_ref.actor.ppo_max_token_len_per_gpu=256"],
    "two_rows_at_a_time": micro_batches(2),
    "two_workers_three_rows_at_a_time": [WORKERS, *micro_batches(3)],
}
"""Name of a run and of its folder -> its overrides."""


@pytest.mark.usefixtures("one_thread")
def test_the_step_depends_neither_on_workers_and_nodes_nor_on_micro_batches(
    tmp_path: Path, data: dict[str, str]
) -> None:
    """One update from the same seeds and data, six ways."""
    played = {
        way: recorded.played(tmp_path / way, data, "sync", 1, *settings)
        for way, settings in WAYS.items()
    }
    folder = tmp_path / "two_nodes"
    with cluster(2, folder) as address:
        joined = [*ELSEWHERE, f"+ray_kwargs.ray_init.address={address}", "trainer.nnodes=2"]
        played["two_nodes"] = recorded.played(folder, data, "sync", 1, *joined)
    alone = played["alone"]
    first = recorded.step_taken(alone, 1)
    assert recorded.largest_difference(first, recorded.gradient(alone, 1)) < SAME
    assert max(float(g.abs().max()) for g in first.values()) > 1000 * SAME
    for way, run in played.items():
        assert answers(run) == answers(alone), f"{way}: sampled something else"
        assert recorded.largest_difference(recorded.step_taken(run, 1), first) < SAME, way
    for way in ("two_workers", "two_nodes"):
        assert losses(played[way]) == pytest.approx(losses(alone), abs=SAME), way


@pytest.fixture
def _as_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ray_dir = tempfile.mkdtemp(prefix="rltf")  # short: Ray puts sockets in it
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RAY_TMPDIR": ray_dir,
        "VERL_PLATFORM": "cpu",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield
    shutil.rmtree(ray_dir, ignore_errors=True)


@pytest.mark.usefixtures("_as_on_a_cpu")
def test_the_notebook_runs(tmp_path: Path) -> None:
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    clone = tmp_path / "clone"
    for folder in ("docs", "recipes/demo"):
        shutil.copytree(runs.ROOT / folder, clone / folder)
    page = nbformat.read(clone / "docs" / "quickstart.ipynb", as_version=4)
    assert not [cell for cell in page.cells if cell.get("outputs")], "clear outputs before a commit"
    nbformat.validate(page)
    place = {"metadata": {"path": str(clone / "docs")}}
    client.NotebookClient(page, timeout=3600, kernel_name="python3", resources=place).execute()
    shown = [out for cell in page.cells for out in cell.get("outputs", ())]
    assert [out for out in shown if "image/png" in out.get("data", ())], "the comparison"
    assert list((clone / "outputs" / "quickstart" / "model").glob("*.safetensors"))
