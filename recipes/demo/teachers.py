"""Teachers on Knights and Knaves: the tiny policy, the real trainer, and the control of each.

    python recipes/demo/teachers.py [--out outputs/demo] [--hours 2]
    python recipes/demo/teachers.py --table     # writes the README's table

A control's teacher reads what was meant for another problem: what it gains is not from the content.
Each method has the better of two rates, chosen on a policy that no other run has, and its control
has the same. Three seeds, each a policy of its own. A finished run is a line of teachers.jsonl
beside this file and is not run again; the same command continues. Last comes a long run of each
method, since policies under a teacher have been seen to collapse late.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from make_policy import Example, make_model, make_tokenizer, warm_up

from rltf_verl.envs.knights_knaves.env import KnightsKnaves
from rltf_verl.prompts import render
from rltf_verl.tools.data.build import build_parquet

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "pretrained"))

from training import Study, curve, lines_of, make_runs, mean_and_each, pivot  # noqa: E402  (in the folder above)

RESULTS = HERE / "teachers.jsonl"
METHODS = ("opsd", "sdpo", "srpo", "rlsd", "rlcsd")
CONTROL, BLAME = ", another problem's text", "fixed blame"
SEEDS, TUNING_SEED, RATES = (1, 2, 3), 9, (2e-4, 1e-3)
STEPS, LONG, PROBLEMS, EPISODES = 60, 300, 8, 8
SHAPE: dict[str, Any] = {"style": "compact", "n_people": 3, "depth": 2, "width": 2}
SOLVED = 0.3
"""Share of the warm-up's first questions with the right answer, so that groups are mixed."""

ARMS: dict[str, tuple[str, ...]] = {
    "grpo": ("rltf/method=grpo_single",),
    BLAME: (
        *("rltf/method=grpo_single", "rltf.attempt.weight=0"),
        f"+rltf.objectives.blame={HERE / 'fixed_blame.py'}:FixedBlame",
    ),
}
for _name in METHODS:
    ARMS[_name] = (f"rltf/method=teacher/{_name}", "rltf.teacher.prompt=teacher/compact")
    ARMS[_name + CONTROL] = (*ARMS[_name], "rltf.teacher.shuffled=true")
ARMS["rlcsd" + CONTROL] = (*ARMS["rlcsd"], "rltf.teacher.against=other_problem")


@dataclass(frozen=True)
class Setting:
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


def settings() -> Iterator[Setting]:
    """The tuning runs; once those are there, the others, seeds outermost."""
    methods = [arm for arm in ARMS if not arm.endswith(CONTROL)]
    for arm, rate in product(methods, RATES):
        yield Setting(arm, TUNING_SEED, rate)
    lines = lines_of(RESULTS)
    tuned = {(line["arm"], line["rate"]): line for line in lines if line["seed"] == TUNING_SEED}
    best = {arm: max(RATES, key=lambda rate: _mean(tuned[arm, rate])) for arm in methods}
    for seed, arm in product(SEEDS, ARMS):
        yield Setting(arm, seed, best[arm.removesuffix(CONTROL)])
    for arm in methods:
        yield Setting(arm, SEEDS[0], best[arm], LONG)


def _mean(line: dict[str, Any]) -> float:
    """Of the validations after the start, so that sooner is better."""
    return statistics.fmean(line["held_out"][1:])


def make_policy(seed: int, part: Path) -> None:
    """A seed's policy, in a folder of its own."""
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer), seed)
    warm_up(model, tokenizer, examples(seed), steps=900, batch_size=32)
    model.save_pretrained(part / f"policy_{seed}")
    tokenizer.save_pretrained(part / f"policy_{seed}")


def train(study: Study, setting: Setting, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    data = build_parquet("knights_knaves", study.out / "data_knights", 0, 2000, 200, **SHAPE)
    policy = study.out / f"policy_{setting.seed}"
    words = [
        *ARMS[setting.arm],
        "rltf/env=knights_knaves",
        "rltf.env.style=compact",
        "rltf/feedback=verifier",
        "rltf/hardware=cpu",
        "trainer.v1.trainer_mode=rltf_sync",
        f"actor_rollout_ref.model.path={study.made(policy, partial(make_policy, setting.seed))}",
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
    ]
    seconds = study.train_with(folder, None, words, ("--config-name=rltf",))
    held_out = [round(point["accuracy"], 3) for point in curve(folder)]
    return {**asdict(setting), "held_out": held_out, "seconds": seconds}


def table(lines: Sequence[Any]) -> str:
    """First answers right at the end, as mean and seeds, then those of the long runs; Markdown."""
    made = {setting.arm: setting.rate for setting in settings() if setting.seed in SEEDS}
    cells, long = {}, {}
    for arm, rate in made.items():
        of = [line for line in lines if line["arm"] == arm and line["seed"] in SEEDS]
        ends = [line["held_out"][-1] for line in of if line["steps"] == STEPS]
        name = arm.removesuffix(CONTROL)
        cells[name, "rate"] = [f"{rate:g}"]
        cells[name, "another problem's text" if arm != name else "its own"] = [mean_and_each(ends)]
        for line in (line for line in of if line["steps"] == LONG):
            for part, share in enumerate(line["held_out"]):
                long[arm, f"step {part * LONG // 4}"] = [f"{share:.2f}"]
    return "\n".join([*pivot("method", cells), "", *pivot(f"{LONG} steps", long)])


if __name__ == "__main__":
    make_runs(RESULTS, HERE / "README.md", __doc__, settings(), train, table)
