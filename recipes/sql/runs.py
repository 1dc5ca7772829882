"""The runs of the table, resumable: six ways to learn with two seeds, and five with one.

    python recipes/sql/runs.py [--out outputs/sql] [--hours 2]
    python recipes/sql/runs.py --table     # writes the README's table

A finished run is a line of results.jsonl next to this file and is not made again; a second process
with the same folder takes the runs that the first one has not begun. The third run of RLTF-SD is
that of `make sql`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "pretrained"))

from training import COMMIT, Study, make_runs, mean_and_each, training_steps  # noqa: E402  (in the folder above)

CONFIG = ("--config-dir", str(HERE / "config"), "--config-name", "sql")
SEEDS = (1, 2)
STEPS = 24
GOLD = (
    f"+rltf.objectives.gold={HERE.parent / 'pretrained/gold_answers.py'}:GoldAnswers",
    "+rltf.gold.lines=['```sql','{};','```']",
)
ALONE = "rltf.distill.weight=0"
"""The config's own method is RLTF-SD."""
ARMS = {
    "RLTF-SD": (),
    # Six answers: about as many as four first ones and what is answered again.
    "GRPO, one turn": ("rltf/method=grpo_single", ALONE, "actor_rollout_ref.rollout.n=6"),
    "gold queries": (
        *("rltf/method=grpo_single", ALONE, "rltf.attempt.weight=0", *GOLD),
        # As many queries as texts were bought: half of 32 answers.
        *("actor_rollout_ref.rollout.n=1", "data.train_batch_size=16"),
    ),
    "RAFT": ("rltf/method=raft", ALONE),
    "GRPO, two turns": ("rltf/method=grpo", ALONE),
    "RLTF-SD, wrong only": ("rltf.feedback.level=verdict",),
}
"""Arm -> its words."""
ONCE = {
    "RLTF-FM": ("rltf/method=fm", ALONE),
    "RLTF-SD and FM": ("rltf/method=sd_fm",),
    "SFT on right second answers": ("rltf/method=sft", ALONE, "rltf.imitate.weight=1"),
    "SDPO": ("rltf/method=teacher/sdpo", ALONE),
    "RLTF-SD, another problem's feedback": ("rltf/feedback=shuffled", "~rltf.feedback.level"),
}
"""The same, of arms with one seed."""

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One training run."""

    arm: str
    seed: int
    rate: float = 2e-4
    steps: int = STEPS


def runs() -> Iterator[Run]:
    """Seeds are outermost: a study that is not whole has all arms."""
    for seed, arm in (*product(SEEDS, ARMS), *product(SEEDS[:1], ONCE)):
        yield Run(arm, seed)


def train(study: Study, run: Run, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    model = study.made(study.out / "model", lambda part: prepare(study, "model", part))
    data = study.made(study.out / "data", lambda part: prepare(study, "data", part))
    words = [
        f"rltf.env.name={HERE / 'text_to_sql.py'}:TextToSql",
        *(f"rltf.seed={run.seed}", f"data.seed={run.seed}"),
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        *(ARMS | ONCE)[run.arm],
        f"actor_rollout_ref.actor.optim.lr={run.rate}",
        f"trainer.total_training_steps={run.steps}",
    ]
    seconds = study.train_with(folder, model, words, CONFIG)
    steps = training_steps(folder)
    return {
        **asdict(run),
        "seconds": seconds,
        "commit": COMMIT,
        "first": [round(step["rltf/turn_1/acc"], 4) for step in steps],
        "corrected": [step.get("rltf/turn_2/corrected") for step in steps],
        # Each text led to a second answer.
        "texts": [round(s["rltf/session/total"] * (s["rltf/session/turns"] - 1)) for s in steps],
        "curve": curve(folder),
    }


def prepare(study: Study, command: str, part: Path) -> None:
    """The model, or the problems."""
    study.call([str(HERE / "sql.sh"), command], OUT=str(part))


def curve(folder: Path) -> list[dict[str, float]]:
    """A point for each validation: first answers that are right, by trade."""
    points = []
    for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        found = {
            name.split("/")[-3]: round(value, 4)
            for name, value in record["data"].items()
            if name.startswith("val-core/") and "/acc/" in name
        }
        if found:
            points.append({"step": record["step"], **found})
    return points


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Markdown; a cell has the mean, then each seed."""
    yield "| arm | seen trades | half way | at the end | unseen trades | half way | at the end |"
    yield "|---|---|---|---|---|---|---|"
    for arm in ARMS | ONCE:
        made = [line for line in lines if line["arm"] == arm]
        if not made:
            continue
        cells = [
            mean_and_each([line["curve"][at][trades] for line in made])
            for trades in ("seen", "unseen")
            for at in (0, len(made[0]["curve"]) // 2, -1)
        ]
        yield f"| {arm} | {' | '.join(cells)} |"


def report(lines: Sequence[Line]) -> str:
    """The table as a text."""
    return "\n".join(table(lines)) if lines else "No run yet."


if __name__ == "__main__":
    make_runs(HERE / "results.jsonl", HERE / "README.md", __doc__, runs(), train, report)
