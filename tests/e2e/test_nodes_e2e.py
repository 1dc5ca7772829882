"""Several nodes: a Ray cluster of two on this machine, joined by its address as one would join
`ray start`'s.
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


def test_two_nodes_and_two_workers_take_the_step_of_one(
    tmp_path: Path, data: dict[str, str]
) -> None:
    alone = recorded.played(tmp_path / "alone", data, "sync", 1)
    workers = recorded.played(tmp_path / "workers", data, "sync", 1, "trainer.n_gpus_per_node=2")
    folder = tmp_path / "nodes"
    with cluster(2, folder) as address:
        joined = [*ELSEWHERE, f"+ray_kwargs.ray_init.address={address}", "trainer.nnodes=2"]
        nodes = recorded.played(folder, data, "sync", 1, *joined)
    first = recorded.step_taken(alone, 1)
    assert max(float(g.abs().max()) for g in first.values()) > 1000 * SAME
    for run in (workers, nodes):
        assert losses(run) == pytest.approx(losses(alone), abs=SAME)
        assert recorded.largest_difference(recorded.step_taken(run, 1), first) < SAME
