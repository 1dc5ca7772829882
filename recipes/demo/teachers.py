"""Teachers on Knights and Knaves: the tiny policy, the real trainer, and the control of each.

    python recipes/demo/teachers.py [--out outputs/teachers] [--hours 2]

A control's teacher reads what was meant for another problem: what it gains is not from the content.
Each method has the better of two rates, chosen on a policy that no other run has, and its control
has the same. Three seeds, each a policy of its own. A finished run is a line of teachers.jsonl
beside this file and is not run again; the same command continues, and prints the tables. Last comes
a long run of each method, since policies under a teacher have been seen to collapse late.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from make_policy import Example, make_model, make_tokenizer, warm_up
from run_demo import Run, launch, stop

from rltf_verl.envs.knights_knaves.env import KnightsKnaves
from rltf_verl.prompts import render
from rltf_verl.tools.data.build import build_parquet

RESULTS = Path(__file__).resolve().parent / "teachers.jsonl"
METHODS = ("opsd", "sdpo", "srpo", "rlsd", "rlcsd")
CONTROL = ", another problem's text"
SEEDS, TUNING_SEED, RATES = (1, 2, 3), 9, (2e-4, 1e-3)
STEPS, LONG, PROBLEMS, EPISODES = 60, 300, 8, 8
SHAPE: dict[str, Any] = {"style": "compact", "n_people": 3, "depth": 2, "width": 2}
SOLVED = 0.3
"""Share of the warm-up's first questions with the right answer, so that groups are mixed."""

ARMS: dict[str, tuple[str, ...]] = {"grpo": ("rltf/method=grpo_single",)}
for _name in METHODS:
    ARMS[_name] = (f"rltf/method=teacher/{_name}", "rltf.teacher.prompt=teacher/compact")
    ARMS[_name + CONTROL] = (*ARMS[_name], "rltf.teacher.shuffled=true")
ARMS["rlcsd" + CONTROL] = (*ARMS["rlcsd"], "rltf.teacher.against=other_problem")


class Setting(NamedTuple):
    """One training run."""

    arm: str
    seed: int
    rate: float
    steps: int = STEPS


def examples(seed: int) -> Iterator[Example]:
    """Answers of random roles, some right ones, and what a teacher's prompt holds, repeated."""
    rng, env = random.Random(seed), KnightsKnaves(**SHAPE)
    pool = env.build(seed, num_train=2000, num_test=0).train
    while True:
        problem, answer = rng.choice(pool), _random_roles(rng)
        question, kind = env.prompt(problem), rng.random()
        if kind < 0.5:
            answer = problem.reference if kind < 0.5 * SOLVED else answer
            yield [{"role": "user", "content": question}], _boxed(answer)
        else:
            text = answer if kind < 0.75 else _boxed(answer)
            others = dict.fromkeys(("demonstration", "sibling", "feedback"))
            prompt = render("teacher/compact", question=question, reference=text, **others)
            yield [{"role": "user", "content": prompt}], _boxed(answer)


def _random_roles(rng: random.Random) -> str:
    return "".join(rng.choice((name, name.lower())) for name in "ABC")


def _boxed(answer: str) -> str:
    return f"\\boxed{{{answer}}}"


def finished(steps: int = STEPS) -> list[dict[str, Any]]:
    """The lines of teachers.jsonl with so many steps."""
    lines = [json.loads(line) for line in RESULTS.open()] if RESULTS.exists() else []
    return [line for line in lines if line.get("steps", STEPS) == steps]


def settings() -> Iterator[Setting]:
    """The tuning runs; once those are there, the others, seeds outermost."""
    methods = [arm for arm in ARMS if not arm.endswith(CONTROL)]
    for arm, rate in product(methods, RATES):
        yield Setting(arm, TUNING_SEED, rate)
    tuned = {
        (line["arm"], line["rate"]): line for line in finished() if line["seed"] == TUNING_SEED
    }
    best = {arm: max(RATES, key=lambda rate: _mean(tuned[arm, rate])) for arm in methods}
    for seed, arm in product(SEEDS, ARMS):
        yield Setting(arm, seed, best[arm.removesuffix(CONTROL)])
    for arm in methods:
        yield Setting(arm, SEEDS[0], best[arm], LONG)


def _mean(line: dict[str, Any]) -> float:
    """Of the validations after the start, so that sooner is better."""
    return statistics.fmean(line["held_out"][1:])


def policy(out: Path, seed: int) -> Path:
    """The folder of a seed's policy; made where it is not there."""
    folder = out / f"policy_{seed}"
    if not folder.is_dir():
        tokenizer = make_tokenizer()
        model = make_model(len(tokenizer), seed)
        warm_up(model, tokenizer, examples(seed), steps=900, batch_size=32)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def train(setting: Setting, out: Path) -> dict[str, Any]:
    """One run, as a line of teachers.jsonl.

    Raises:
        SystemExit: it failed; names its log.
    """
    data = build_parquet("knights_knaves", out / "data", 0, 2000, 200, **SHAPE)
    # Hydra reads the folder's name, where an apostrophe opens a string
    folder = out / re.sub(r"[^\w.]+", "_", "_".join(map(str, setting)))
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        *(sys.executable, "-m", "verl.trainer.main_ppo", "--config-name=rltf"),
        *ARMS[setting.arm],
        "rltf/env=knights_knaves",
        "rltf.env.style=compact",
        "rltf/feedback=verifier",
        "rltf/hardware=cpu",
        "trainer.v1.trainer_mode=rltf_sync",
        f"actor_rollout_ref.model.path={policy(out, setting.seed)}",
        *("data.max_prompt_length=96", "data.max_response_length=12"),
        f"data.train_files={data.train}",
        f"data.val_files={data.test}",
        f"data.train_batch_size={PROBLEMS}",
        f"actor_rollout_ref.rollout.n={EPISODES}",
        f"actor_rollout_ref.actor.optim.lr={setting.rate}",
        *(f"rltf.seed={setting.seed}", f"data.seed={setting.seed}"),
        *("trainer.logger=[file]", "trainer.save_freq=-1", "trainer.resume_mode=disable"),
        f"trainer.total_training_steps={setting.steps}",
        f"trainer.test_freq={setting.steps // 4}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]
    with tempfile.TemporaryDirectory(prefix="rltf", ignore_cleanup_errors=True) as ray_folder:
        run = launch(setting.arm, folder, command, Path(ray_folder))
        try:
            code = run.process.wait()
        finally:
            stop([run])
    if code:
        raise SystemExit(f"{setting} ended with {code}: see {folder / 'log.txt'}")
    return {**setting._asdict(), **_seen(run), "seconds": round(time.monotonic() - run.started)}


def _seen(run: Run) -> dict[str, Any]:
    return {"held_out": [round(share, 3) for _, share in run.held_out]}


def table() -> str:
    """First answers right before and after, as mean and range over seeds; Markdown."""
    lines = [
        "| arm | rate | at the start | at the end | seeds |",
        "|---|---|---|---|---|",
    ]
    for arm in ARMS:
        runs = [line for line in finished() if line["arm"] == arm and line["seed"] in SEEDS]
        if runs:
            start, end = ([line["held_out"][k] for line in runs] for k in (0, -1))
            each = " ".join(f"{share:.2f}" for share in end)
            means = f"{statistics.fmean(start):.2f} | **{statistics.fmean(end):.2f}**"
            lines.append(f"| {arm} | {runs[0]['rate']:g} | {means} | {each} |")
    if long := finished(LONG):
        lines += ["", f"Held-out answers over {LONG} steps:", "", "| arm | |", "|---|---|"]
    for line in long:
        lines.append(f"| {line['arm']} | {' '.join(f'{x:.2f}' for x in line['held_out'])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/teachers"))
    parser.add_argument("--hours", type=float, default=24.0, help="start no run after so long")
    args = parser.parse_args()
    end = time.monotonic() + 3600 * args.hours
    done = {
        (line["arm"], line["seed"], line["rate"], steps)
        for steps in (STEPS, LONG)
        for line in finished(steps)
    }
    for setting in settings():
        if setting not in done and time.monotonic() < end:
            line = train(setting, args.out.resolve())
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)
    print(table())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
