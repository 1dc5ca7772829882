"""Throughput of the judge runtime against a judge of known latency, as a share of the ideal.

python benchmarks/judge.py            # 0.5 s per answer, 64 at once: ideal 128 answers a second

The judge is a process of its own (tests/support/judge/server.py), so the runtime has its process
to itself, as the actor has in training.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path

from rltf_verl.judge.runtime import JudgeRuntime
from rltf_verl.judge.settings import Endpoint, JudgeLimits, JudgeSettings
from rltf_verl.judge.wire import Call

SERVER = Path(__file__).parents[1] / "tests" / "support" / "judge" / "server.py"


async def measure(url: str, cap: int, num: int) -> tuple[float, JudgeRuntime]:
    """Seconds for `num` answers, connections and imports paid for before."""
    runtime = JudgeRuntime(JudgeSettings(Endpoint(url, "m"), JudgeLimits(max_concurrency=cap)))
    prompt = "An attempt of ordinary length. " * 100
    calls = [Call(({"role": "user", "content": prompt},), seed) for seed in range(num + cap)]
    await asyncio.gather(*(runtime.complete(call) for call in calls[num:]))
    start = time.monotonic()
    await asyncio.gather(*(runtime.complete(call) for call in calls[:num]))
    seconds = time.monotonic() - start
    await runtime.aclose()
    return seconds, runtime


def main() -> None:
    """One line per run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency", type=float, default=0.5, help="seconds per answer")
    parser.add_argument("--cap", type=int, default=64, help="requests at once")
    parser.add_argument("--num", type=int, default=1920, help="answers")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    command = [sys.executable, str(SERVER), "--latency", str(options.latency)]
    ideal = options.cap / options.latency
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for _ in range(options.runs):
            processor = time.process_time()
            seconds, runtime = asyncio.run(measure(url, options.cap, options.num))
            processor = time.process_time() - processor
            rate = options.num / seconds
            told = (
                f"at most {runtime.stats.in_flight_peak} at once,"
                f" {processor / options.num * 1e3:.2f} ms of CPU each"
            )
            print(f"{rate:7.1f} answers/s of {ideal:.1f} ideal: {rate / ideal:.1%}; {told}")
        server.terminate()


if __name__ == "__main__":
    main()
