r"""What verdicts, critiques and right answers buy on matrices: the tiny policy, the real trainer.

    python recipes/demo/matrices.py [--out outputs/demo] [--hours 2]
    python recipes/demo/matrices.py --table     # writes the README's table

A critique marks each cell of an answer as right, too small or too large, so that up to five of them
lead to the right matrix and none says it. Each arm's rate is chosen as in study.py, on a policy
that no other run has; four seeds, each with a policy of its own. A finished run is a line of
matrices.jsonl beside this file and is not run again; the same command continues.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from make_policy import examples, make_model, make_tokenizer, warm_up

from rltf_verl.tools.data.build import build_parquet

HERE = Path(__file__).resolve().parent
PRETRAINED = HERE.parent / "pretrained"
sys.path.append(str(PRETRAINED))

from intervals import contrast  # noqa: E402  (in the folder above)
from study import best_of, next_value, score  # noqa: E402  (in the folder above)
from training import Study, curve, lines_of, make_runs, mean_and_each, pivot  # noqa: E402  (in the folder above)

RESULTS = HERE / "matrices.jsonl"
SEEDS, TUNING_SEED, RATES = (1, 2, 3, 4), 9, (1e-4, 2e-4, 4e-4)
STEPS, TEST_EVERY, HORIZON = 100, 20, 6
ONE_TURN = ("rltf/method=grpo_single", "data.train_batch_size=8", "actor_rollout_ref.rollout.n=8")
"""As many answers a step as sixteen problems with two episodes of two turns."""
GOLD = (
    *("rltf/method=grpo_single", "rltf.attempt.weight=0", "actor_rollout_ref.rollout.n=1"),
    f"+rltf.objectives.gold={PRETRAINED / 'gold_answers.py'}:GoldAnswers",
    r"+rltf.gold.lines=['\boxed{{{}}}']",
)
ARMS = {
    "grpo": ONE_TURN,
    "sft": ("rltf/method=sft", "rltf.imitate.weight=1"),
    "raft": ("rltf/method=raft",),
    "sd": ("rltf/method=sd", "rltf.distill.weight=1"),
    "fm": ("rltf/method=fm",),
    "gold": GOLD,
    **{
        f"gold, {n}": (*GOLD, f"data.train_max_samples={n}", f"trainer.total_epochs={STEPS}")
        for n in (16, 64, 256)
    },
}


@dataclass(frozen=True)
class Run:
    """One training run."""

    arm: str
    seed: int
    rate: float


def runs() -> Iterator[Run]:
    """Those of the choice; once they are there, the others, seeds outermost."""
    for arm in ARMS:
        while (rate := next_value(tried(arm), RATES, 2.0)) is not None:
            yield Run(arm, TUNING_SEED, rate)
    best = {arm: best_of(tried(arm), RATES[-1]) for arm in ARMS}
    for seed, arm in product(SEEDS, ARMS):
        yield Run(arm, seed, best[arm])


def tried(arm: str) -> dict[float, float]:
    """Rate -> the score of its run."""
    lines = [line for line in lines_of(RESULTS) if line["seed"] == TUNING_SEED]
    return {line["rate"]: score(line) for line in lines if line["arm"] == arm}


def make_policy(seed: int, part: Path) -> None:
    """A seed's policy, in a folder of its own."""
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer), seed)
    warm_up(model, tokenizer, examples(seed, "hint"), steps=1500, batch_size=32)
    model.save_pretrained(part / f"matrices_{seed}")
    tokenizer.save_pretrained(part / f"matrices_{seed}")


def words_of(arm: str) -> list[str]:
    """Overrides of the config, but for files, rate and seed."""
    words = [
        *("rltf/env=binary_matrix", "rltf.env.style=compact", "rltf/hardware=cpu"),
        *("rltf/feedback=verifier", "rltf.feedback.level=hint", "rltf.episode.revise=compact"),
        *("data.train_batch_size=16", "actor_rollout_ref.rollout.n=2"),
        *ARMS[arm],
    ]
    single = "rltf/method=grpo_single" in words
    return words if single else [*words, f"rltf.episode.horizon={HORIZON}"]


def train(study: Study, run: Run, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    shape: dict[str, Any] = {"style": "compact", "n_min": 3, "n_max": 3}
    data = build_parquet("binary_matrix", study.out / "data_matrices", 0, 2000, 100, **shape)
    policy = study.made(study.out / f"matrices_{run.seed}", partial(make_policy, run.seed))
    words = [
        *words_of(run.arm),
        f"actor_rollout_ref.model.path={policy}",
        *("data.max_prompt_length=64", "data.max_response_length=20"),
        f"data.train_files={data.train}",
        f"data.val_files={data.test}",
        f"actor_rollout_ref.actor.optim.lr={run.rate}",
        *(f"rltf.seed={run.seed}", f"data.seed={run.seed}"),
        *("trainer.logger=[file]", "trainer.save_freq=-1", "trainer.resume_mode=disable"),
        *(f"trainer.total_training_steps={STEPS}", f"trainer.test_freq={TEST_EVERY}"),
    ]
    seconds = study.train_with(folder, None, words, ("--config-name=rltf",))
    return {**asdict(run), "seconds": seconds, "curve": curve(folder)}


def results() -> list[dict[str, Any]]:
    """The lines of the four seeds, without those of the choice."""
    return [line for line in lines_of(RESULTS) if line["seed"] in SEEDS]


def table(lines: Sequence[Any]) -> str:
    """First answers right at the end, as mean and seeds, and the difference paired by seed."""
    ends: dict[str, dict[int, float]] = {}
    cells = {}
    for line in (line for line in lines if line["seed"] in SEEDS):
        ends.setdefault(line["arm"], {})[line["seed"]] = line["curve"][-1]["accuracy"]
        cells[line["arm"], "rate"] = [f"{line['rate']:g}"]
    for arm, of in ends.items():
        cells[arm, "at the end"] = [mean_and_each([*of.values()])]
        cells[arm, "minus sd"] = [contrast(of, ends.get("sd", {}))]
    return "\n".join(pivot("arm", cells)) if cells else "No run yet."


if __name__ == "__main__":
    make_runs(RESULTS, HERE / "README.md", __doc__, runs(), train, table)
