"""An hour of the real trainer while everything around it fails, then a look at what is left.

    python -m benchmarks.soak                 # 60 minutes; exit status 1 and a list if anything
                                              # is wrong
    python -m benchmarks.soak --minutes 6     # a short one

A judge that answers with every fault of its list, SIGKILL of any process of the run at random
moments, the judge down, the disk full, the clock set forward and back. The run is started again
whenever it ended, as a job scheduler would do, but not when it ended before its first step: no
fault comes before that one. The last third is quiet, but for the judge: there
the memory of each process is watched. Needs Linux; as root the run writes to a small file system of
its own, which can be filled; otherwise that fault is left out, and the report says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.soak_checks import broken_lines, growth, problems_by_step, wrong_steps
from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.files import log_files, place
from tests.e2e import runs

N, BATCH, STEPS = 3, 12, 10**6
"""Episodes per problem, problems per step, as in `runs.SETTINGS`; more steps than there is time
for.
"""
PAUSE_S = (30.0, 75.0)
"""Seconds between two faults."""
OUTAGE_S, FULL_S, STALL_S, LEAVE_S = 20.0, 60.0, 300.0, 90.0
SETTLE_S = 120.0
"""Within which a run ends by the last fault, and is started again."""
DISK_MB, GROWTH_MB = 300, 60.0
JUDGE = Path(__file__).parents[1] / "tests" / "support" / "judge" / "server.py"
MARK = "RLTF_SOAK_ID"

SETTINGS = [
    "rltf/feedback=judge",
    "rltf.feedback.style=short",
    "rltf.feedback.endpoint.model=m",
    "rltf.feedback.limits.deadline_s=8",
    "rltf.feedback.limits.request_timeout_s=2",
    "rltf.feedback.limits.backoff_s=0.2",
    "rltf.feedback.limits.breaker_after_s=5",
    "rltf.feedback.limits.breaker_probe_s=1",
    "actor_rollout_ref.rollout.agent.num_workers=2",
    "trainer.save_freq=2",
    "trainer.max_actor_ckpt_to_keep=2",
    "trainer.test_freq=20",
]


@dataclass
class Soak:
    """The run, its judge and everything that is noted about them."""

    folder: Path
    disk: Path
    """What checkpoints and episodes are written to."""
    rng: random.Random
    data: dict[str, str]
    can_fill: bool
    port: int = 0
    judge: subprocess.Popen[str] | None = None
    run: runs.Run | None = None
    faults: list[str] = field(default_factory=list)
    starts: int = 0
    progress: tuple[int, float] = (0, 0.0)
    """The last step, and when it was seen first or the run was started."""
    troubles: list[str] = field(default_factory=list)
    memory: dict[tuple[int, str], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def note(self, text: str) -> None:
        """To the terminal, at once: an hour without a word looks like a hang."""
        print(f"{time.strftime('%H:%M:%S')} step {self.step():4d}  {text}", flush=True)

    def step(self) -> int:
        """The last step that has episodes."""
        return max((place(p)[0] for p in log_files(self.episodes, ("train",))), default=0)

    def stalled(self) -> bool:
        """No new step for too long, whatever happened meanwhile."""
        now, step = time.monotonic(), self.step()
        if step != self.progress[0]:
            self.progress = step, now
        return now - self.progress[1] > STALL_S

    @property
    def episodes(self) -> Path:
        return self.disk / "checkpoints" / "episodes"

    def start_judge(self) -> None:
        """On the port that it had before."""
        command = [
            sys.executable,
            str(JUDGE),
            "--port",
            str(self.port),
            "--faults",
            "0.2",
            "--latency",
            "0.05",
        ]
        self.judge = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.judge.stdout is not None
        self.port = int(self.judge.stdout.readline().strip().rsplit(":", 1)[1].split("/")[0])

    def stop_judge(self) -> None:
        assert self.judge is not None
        self.judge.kill()
        self.judge.wait()

    def overrides(self, steps: int) -> list[str]:
        """What the run has on top of `runs.words`."""
        return [
            *SETTINGS,
            f"rltf.feedback.endpoint.base_url=http://127.0.0.1:{self.port}/v1",
            f"trainer.total_training_steps={steps}",
            # Not a run's last step, and not what a checkpoint goes by: more epochs than there
            # is time for.
            "trainer.total_epochs=100000",
            f"trainer.default_local_dir={self.disk / 'checkpoints'}",
        ]

    def start(self, steps: int) -> None:
        """Start the run, or go on with it."""
        self.starts += 1
        self.progress = self.step(), time.monotonic()
        os.environ["RLTF_SOAK_CLOCK"] = str(self.folder / "clock")
        self.run = runs.start(
            self.folder / "run",
            self.data,
            self.overrides(steps),
            recorder="benchmarks.soak_probe",
        )

    def family(self) -> list[psutil.Process]:
        """All processes of all starts, by the mark in their environment."""
        own = {os.getpid(), self.judge.pid if self.judge else 0}
        marked = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid not in own and process.environ().get(MARK) == os.environ[MARK]:
                    marked.append(process)
        return [p for p in marked if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def after_the_end(self) -> None:
        """The run has ended: nobody may stay."""
        assert self.run is not None
        code = self.run.wait(10)
        deadline = time.monotonic() + LEAVE_S
        while self.family() and time.monotonic() < deadline:
            time.sleep(1)
        left = self.family()
        for process in left:
            with contextlib.suppress(psutil.Error):
                self.troubles.append(
                    f"process left {LEAVE_S:.0f} s after the end: {process.name()} {process.pid}"
                )
                process.kill()
        self.note(f"the run ended with status {code}")


def kill(soak: Soak, driver: bool) -> str:
    """SIGKILL for the driver, or for any other process of the run."""
    assert soak.run is not None
    family = [p for p in soak.family() if (p.pid == soak.run.process.pid) == driver]
    victim = soak.rng.choice(family) if family else None
    if victim is None:
        return "nobody to kill"
    with contextlib.suppress(psutil.Error):
        name = victim.name()
        victim.send_signal(signal.SIGKILL)
        return f"SIGKILL for {name} {victim.pid}"
    return "it had gone by itself"


def outage(soak: Soak) -> str:
    """The judge is down for a while."""
    soak.stop_judge()
    watch(soak, OUTAGE_S)
    soak.start_judge()
    return f"judge down for {OUTAGE_S:.0f} s"


def full_disk(soak: Soak) -> str:
    """Not a byte left for a minute."""
    filler = soak.disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
        while file.write(b"x"):
            pass
    watch(soak, FULL_S)
    filler.unlink()
    return f"disk full for {FULL_S:.0f} s"


def clock_jump(soak: Soak) -> str:
    """An hour or a day, forward or back."""
    jump = soak.rng.choice([-86400, -3600, 3600, 86400])
    (soak.folder / "clock").write_text(str(jump))
    return f"clock set by {jump} s"


def first_step(soak: Soak) -> None:
    """Wait for it.

    Raises:
        SystemExit: the run ended before it, or takes too long.
    """
    assert soak.run is not None
    end = time.monotonic() + STALL_S
    while not soak.step():
        if soak.run.process.poll() is not None or time.monotonic() > end:
            code = soak.run.wait(0)
            raise SystemExit(f"{soak.run.log[-3000:]}\nended before its first step, status {code}")
        time.sleep(0.2)


def watch(soak: Soak, seconds: float, quiet: bool = False) -> None:
    """Let it run; start it again when it ended; a run without progress is ended and is a
    trouble.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(2.0, max(0.0, end - time.monotonic())))
        assert soak.run is not None
        if soak.run.process.poll() is not None:
            soak.after_the_end()
            if quiet:
                soak.troubles.append(f"the run ended in the quiet part: {soak.run.log[-500:]}")
            soak.start(STEPS)
        if soak.stalled():
            last = soak.faults[-1] if soak.faults else "no fault"
            soak.troubles.append(
                f"no progress for {STALL_S:.0f} s at step {soak.step()}, after: {last}"
            )
            soak.run.kill()
        if quiet:
            remember_memory(soak)


def remember_memory(soak: Soak) -> None:
    """Resident bytes of each process."""
    for process in soak.family():
        with contextlib.suppress(psutil.Error):
            name = " ".join(process.cmdline())[:60] or process.name()
            soak.memory[process.pid, name].append(
                (time.monotonic(), float(process.memory_info().rss))
            )


def undisturbed(data: dict[str, str], steps: int) -> list[list[int]]:
    """The problems of each step, by verl's own sampler."""
    import datasets
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import create_rl_sampler

    rows = datasets.load_dataset("parquet", data_files=data["data.train_files"], split="train")
    index = [row["extra_info"]["index"] for row in rows]
    sampler = create_rl_sampler(OmegaConf.create({"shuffle": True, "seed": 0}), index)
    order: list[int] = []
    while len(order) < steps * BATCH:
        epoch = [index[i] for i in sampler]
        order += epoch[: len(epoch) // BATCH * BATCH]
    return [order[i * BATCH : (i + 1) * BATCH] for i in range(steps)]


def make_disk(folder: Path) -> tuple[Path, bool]:
    """A small file system for the run, where this process may mount one."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "rltf-soak", str(disk)]
    return disk, subprocess.run(command, capture_output=True, check=False).returncode == 0


def play(soak: Soak, minutes: float) -> None:
    """Two thirds with faults, one third without, and an orderly end."""
    kinds = [
        lambda s: kill(s, True),
        lambda s: kill(s, False),
        lambda s: kill(s, False),
        outage,
        clock_jump,
    ]
    kinds += [full_disk] if soak.can_fill else []
    soak.start_judge()
    soak.start(STEPS)
    first_step(soak)
    end, waiting = time.monotonic() + minutes * 60, []
    while time.monotonic() < end - minutes * 20:
        watch(soak, soak.rng.uniform(*PAUSE_S))
        if not waiting:
            waiting = soak.rng.sample(kinds, len(kinds))
        soak.faults.append(waiting.pop()(soak))
        soak.note(soak.faults[-1])
    soak.note("no fault from now on")
    watch(soak, SETTLE_S)
    soak.note("quiet from now on")
    watch(soak, max(60.0, end - time.monotonic() - 60), quiet=True)
    soak.note("watched enough")


def finish(soak: Soak) -> None:
    """Kill it once more, and let it come to its end by itself."""
    assert soak.run is not None
    soak.run.kill()
    soak.after_the_end()
    soak.start(soak.step() + 3)
    code = soak.run.wait(600)
    if code != 0:
        soak.troubles.append(f"the last start ended with {code}: {soak.run.log[-500:]}")
    soak.after_the_end()


def report(soak: Soak) -> dict[str, Any]:
    """What is wrong, and figures."""
    records, steps = read_episodes(soak.episodes), soak.step()
    soak.troubles += wrong_steps(problems_by_step(records), undisturbed(soak.data, steps), N)
    soak.troubles += [f"broken line: {line}" for line in broken_lines(soak.episodes)]
    parts = [p for p in soak.disk.rglob("*") if p.name.endswith((".part", ".tmp"))]
    soak.troubles += [f"file left: {p}" for p in parts]
    grown = {f"{pid} {name}": growth(s) for (pid, name), s in soak.memory.items()}
    soak.troubles += [
        f"{name} grew by {mb:.0f} MB" for name, mb in grown.items() if mb and mb > GROWTH_MB
    ]
    return {
        "steps": steps,
        "episodes": len(records),
        "starts": soak.starts,
        "faults": soak.faults,
        "disk_filled": soak.can_fill,
        "growth_mb": grown,
        "troubles": soak.troubles,
    }


def main() -> None:
    """Exit status 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("outputs/soak"))
    options = parser.parse_args()
    folder = options.out.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    disk, can_fill = make_disk(folder)
    soak = Soak(
        folder, disk, random.Random(options.seed), runs.build_data(folder / "data"), can_fill
    )
    try:
        play(soak, options.minutes)
        finish(soak)
        result = report(soak)
    finally:
        if soak.run is not None and soak.run.process.poll() is None:
            soak.run.kill()
        soak.stop_judge()
        if can_fill:
            shutil.copytree(disk, folder / "kept", ignore=shutil.ignore_patterns("global_step_*"))
            subprocess.run(["umount", "-l", str(disk)], check=False)
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))
    raise SystemExit(bool(soak.troubles))


if __name__ == "__main__":
    main()
