"""Every arm at a rate and a weight that were chosen for it alone, on eight houses; resumable.

    python recipes/pretrained/study.py [--hours 2]    # study_report.py writes its tables

A finished run is a line of results.jsonl beside this file and is not run again; a second process
with the same folder takes the runs that the first one has not begun. Each arm first has six runs on
two houses that no result uses, more only while its best rate or weight is the first or the last
one. Then houses are outermost, so that a study that is not whole has all arms.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any

from ability import ability, passes, questions
from training import Study, lines_of, measured

from rltf_verl.envs import make_env
from rltf_verl.jsonl import append_lines, read_lines

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
CHOOSING = (20, 21)
"""Houses: for the rate, and for the weight (or the rate again)."""
HOUSES = tuple(range(31, 39))
FEW = HOUSES[:4]
RATES = (5e-5, 1e-4, 2e-4)
"""Those that are tried first; of weights, a third, once and three times the usual one."""
MOST = 6
"""Values that are tried of a rate or of a weight on one house."""
NUM_STEPS = 16
STEPS = f"trainer.total_training_steps={NUM_STEPS}"
ONE_TURN = ("data.train_batch_size=8", "actor_rollout_ref.rollout.n=8")
"""As many answers a step as sixteen problems with two episodes of two turns."""
FOUR_PROBLEMS = ("data.train_batch_size=4", "actor_rollout_ref.rollout.n=8")
"""As many, of two turns."""


@dataclass(frozen=True)
class Arm:
    """A method."""

    words: tuple[str, ...]
    """Overrides of the recipe's config."""
    weight: str | None = None
    """Key of its weight beside other objectives'; None: one objective, which Adam scales away."""
    usual: float = 1.0
    """The weight that the factors multiply."""
    start: str = "zero"
    """Where its rate is chosen, from `zero` right first answers or from some (`mixed`): without
    one GRPO learns at no rate.
    """
    task: str = "date"
    """The same, of `GRID`."""


CORE = {
    "grpo": Arm(("rltf/method=grpo_single", *ONE_TURN), start="mixed"),
    "sft": Arm(("rltf/method=sft",), "rltf.imitate.weight"),
    "raft": Arm(("rltf/method=raft",)),
    "sd": Arm(("rltf/method=sd",), "rltf.distill.weight"),
    "fm": Arm(("rltf/method=fm",), "rltf.feedback_modeling.weight", 0.1),
    "gold": Arm(
        (
            *("rltf/method=grpo_single", "rltf.attempt.weight=0"),
            f"+rltf.objectives.gold={HERE / 'gold_answers.py'}:GoldAnswers",
            "actor_rollout_ref.rollout.n=1",
        )
    ),
}
OTHERS = {
    "sd second_turn": Arm(
        ("rltf/method=sd", "rltf.distill.baseline=second_turn"), "rltf.distill.weight"
    ),
    "sd + fm": Arm(("rltf/method=sd_fm",), "rltf.distill.weight"),
    "sdpo forward KL": Arm(
        (
            "rltf/method=teacher/sdpo",
            f"rltf.teacher.prompt={HERE / 'teacher.j2'}",
            "rltf.logit_distill.divergence=forward_kl",
            *ONE_TURN,
        )
    ),
}


def again(n: int) -> tuple[str, str]:
    """Words for so many right answers, again and again."""
    return (f"data.train_max_samples={n}", f"trainer.total_epochs={256 // n}")


CHOSEN = ", chosen there"
OF_CRITIQUES = {
    f"raft{CHOSEN}": replace(CORE["raft"], task="critique"),
    f"sd{CHOSEN}": replace(CORE["sd"], task="critique"),
    f"gold, 16{CHOSEN}": Arm((*CORE["gold"].words, *again(16)), task="critique"),
}
"""Arms whose rate and weight are chosen on critiques."""
ARMS = CORE | OTHERS | OF_CRITIQUES
FEWER = ("gold, 16", "gold, 64")
"""So many right answers, again and again, in the place of sixteen new ones a step."""
TODAY = {"sd, rate × 0.6": 1.2e-4, "fm, rate × 0.6": 2.4e-4, "raft, rate × 0.6": 1.2e-4}
"""Rates with as long updates as the older lines have, in commits that measure the last policy."""
RETRIES = {"own": "policy", "again": "correctness"}
"""Part of a line -> feedback of each of `ROUNDS` retries: a critique that the last policy writes
itself, or only whether it is right.
"""
ROUNDS = 3
HALF = "sd, half the rate"
"""At 2e-4, which dates chose, critiques lose the policy on some houses."""
RATIOS = ("sd, ppo", "sd, cispo")
"""Ratio of the policy to itself with the feedback, clipped as either does."""
FOREIGN = "gold, another author"
"""Right answers behind a sentence that the policy would not say."""
PRESETS = ("sd, weight 0.1", "sft, weight 0.1")
"""The presets' weight, and as long updates as the older lines have."""
NULL, AGAIN = "sft", "sft, another seed"
"""Their difference is noise."""
EQUAL, EQUAL_SD = "sft, as sd", "sd, as sft"
"""One with the rate and the weight of the other."""
EQUAL_AGAIN, SD_AGAIN = f"{EQUAL}, another seed", "sd, another seed"
GRPO_ON_TURNS = "fm, weight 0"
"""FM that predicts nothing: GRPO on first and second answers."""
EIGHT = "sd second_turn, eight answers"
"""A problem, so that more of its second answers differ in their reward."""


@dataclass(frozen=True)
class Like:
    """An arm that has no choice of its own."""

    method: str
    """Arm whose words it has."""
    words: tuple[str, ...] = ()
    """Its own ones beside them."""
    chosen: str | None = None
    """Arm whose rate and weight it has; None: those of `method`."""
    weight: float | None = None
    """None: the chosen one."""
    rate: float | None = None
    """As the weight."""
    seed: int = 1


# All other lines but those of `gold` and of critiques come from commits in which an update had
# about 0.6 times its rate.
LIKE = {
    AGAIN: Like(NULL, seed=2),
    EQUAL: Like(NULL, chosen="sd"),
    EQUAL_AGAIN: Like(NULL, chosen="sd", seed=2),
    SD_AGAIN: Like("sd", seed=2),
    EQUAL_SD: Like("sd", chosen=NULL),
    "sd rejection": Like("sd", ("rltf.distill.baseline=rejection",)),
    "sd second_turn, full rate": Like("sd second_turn"),
    EIGHT: Like("sd second_turn", FOUR_PROBLEMS),
    f"{EIGHT}, full rate": Like("sd second_turn", FOUR_PROBLEMS),
    "fm shuffled": Like("fm"),
    "fm, weight 0.03": Like("fm", weight=0.03),
    "fm, rate 0.0001": Like("fm", rate=1e-4),
    "fm of examples": Like("fm", (f"rltf.feedback_modeling.filter={HERE / 'seldom.py'}:example",)),
    GRPO_ON_TURNS: Like("fm", weight=0.0),
    f"{GRPO_ON_TURNS}, full rate": Like("fm", weight=0.0),
    **{fewer: Like("gold", again(n)) for n, fewer in zip((16, 64), FEWER, strict=True)},
    **{name: Like(name.partition(",")[0], rate=rate) for name, rate in TODAY.items()},
    **{name: Like(name.partition(",")[0], weight=0.1, rate=1.2e-4) for name in PRESETS},
    HALF: Like("sd", rate=1e-4),
    **{
        name: Like(
            "sd", ("rltf.distill.reference=sampler", f"rltf.distill.loss={name[4:]}"), rate=1.2e-4
        )
        for name in RATIOS
    },
    FOREIGN: Like("gold", ("+rltf.gold.lines=['Ah! A question for the clerk, who notes:','{}']",)),
    "no training": Like("grpo", ("trainer.val_only=true",)),
}
IMITATING = ("sft", EQUAL, "raft", "sd")
Part = tuple[str, str, Sequence[int], Sequence[str]]
GRID: Sequence[Part] = (
    ("prompt", "zero", HOUSES, ("no training",)),
    ("critique", "zero", FEW, (*OF_CRITIQUES, HALF, "raft", "sd", "sd rejection")),
    ("date", "zero", HOUSES, (*CORE, AGAIN)),
    ("date", "zero", FEW, (FOREIGN, *TODAY, *RATIOS)),
    ("date", "zero", FEW, (*OTHERS, EQUAL, GRPO_ON_TURNS, "sd second_turn, full rate")),
    ("date", "zero", FEW, (f"{GRPO_ON_TURNS}, full rate", *FEWER)),
    ("critique", "zero", FEW, ("grpo", "sft", "fm", "gold", FEWER[1])),
    ("date", "zero", FEW[:2], (EIGHT, f"{EIGHT}, full rate")),
    ("form", "zero", FEW, (*IMITATING, "sd second_turn")),
    ("fault", "zero", HOUSES, (*IMITATING, EQUAL_AGAIN, SD_AGAIN, EQUAL_SD)),
    ("fault", "zero", FEW, (*PRESETS, "sd second_turn")),
    ("tag", "zero", HOUSES[:3], IMITATING),
    ("sign", "zero", HOUSES[:3], IMITATING),
    ("seldom", "zero", FEW, ("sft", "sd", "fm", "fm shuffled", "fm of examples")),
    ("seldom", "zero", FEW[:2], ("fm, weight 0.03", "fm, rate 0.0001")),
    ("date", "mixed", FEW, (*CORE, AGAIN)),
    ("letters", "zero", HOUSES[:3], ("sft", "sd", "sd second_turn", "sd rejection")),
)
"""Task, start, houses, arms, at the rates and weights that were chosen on dates. `prompt`: dates,
each question after an entry of the house, which a person may write there and not train. `critique`:
dates with up to five critiques, without an example. `form`,
`fault`, `tag` and `sign`: deviations of `accepted.py`. `seldom`: entries after a quarter of the
warm-up, with a hint to one answer in ten. `letters`: the reward counts the rules that a letter
keeps; they come last, because a run of them takes four times as long.
"""
OWN_DATA = {
    "prompt": (f"{HERE / 'house_style.py'}:HouseStyle", "example=true"),
    **{
        name: (f"{HERE / 'accepted.py'}:Accepted", f"deviation={name}")
        for name in ("form", "fault", "tag", "sign")
    },
}
"""Task -> environment and option with which its problems are built."""
PROVIDER = f"{HERE / 'seldom.py'}:Seldom"
SELDOM = ["rltf/feedback=own", f"rltf.feedback.provider={PROVIDER}", "+rltf.feedback.share=0.1"]
SHUFFLED_SELDOM = [
    "rltf/feedback=shuffled",
    *("~rltf.feedback.inner.level", f"rltf.feedback.inner.provider={PROVIDER}"),
    "+rltf.feedback.inner.share=0.1",
]


@dataclass(frozen=True)
class Run:
    """One training run."""

    arm: str
    start: str
    house: int
    seed: int
    rate: float
    weight: float
    task: str = "date"
    """Of `GRID`."""


def finished() -> list[dict[str, Any]]:
    """Every line of results.jsonl."""
    return lines_of(RESULTS)


def score(line: Mapping[str, Any]) -> float:
    """Mean held-out accuracy of first answers over the validations of the training."""
    return fmean(point["accuracy"] for point in line["curve"][1:] or line["curve"])


def scores(arm: str, house: int, key: str) -> dict[float, float]:
    """Rate or weight -> score, of an arm's runs on a choosing house."""
    lines = [line for line in finished() if (line["arm"], line["house"]) == (arm, house)]
    return {line[key]: score(line) for line in lines}


def next_value(tried: dict[float, float], first: Sequence[float], factor: float) -> float | None:
    """The value to try next: the first ones, then one further out while the best is at an edge;
    None: the best is bracketed, `MOST` were tried, or one more than the first ones without success.

    >>> next_value({1.0: 0.1}, (1.0, 2.0), 2.0), next_value({1.0: 0.1, 2.0: 0.5}, (1.0, 2.0), 2.0)
    (2.0, 4.0)
    >>> next_value({1.0: 0.1, 2.0: 0.5, 4.0: 0.2}, (1.0, 2.0), 2.0)
    >>> next_value({1.0: 0.0, 2.0: 0.0}, (1.0, 2.0), 2.0)
    4.0
    """
    for value in first:
        if value not in tried:
            return value
    best, smallest, largest = best_of(tried, max(tried)), min(tried), max(tried)
    if len(tried) == (MOST if any(tried.values()) else len(first) + 1):
        return None
    if best == largest:
        return best * factor
    return best / factor if best == smallest else None


def best_of(tried: Mapping[float, float], usual: float) -> float:
    """The value with the best score; where all are equal, the usual one.

    >>> best_of({1.0: 0.0, 2.0: 0.0}, 2.0), best_of({1.0: 0.1, 2.0: 0.0}, 2.0)
    (2.0, 1.0)
    """
    return max(sorted(tried), key=lambda value: (tried[value], value == usual))


def choosing_run(arm: str) -> Run | None:
    """The next run of an arm's choice; None: it has been made."""
    of = ARMS[arm]
    run = partial(Run, arm, of.start, seed=0, task=of.task)
    rate = next_value(scores(arm, CHOOSING[0], "rate"), RATES, 2.0)
    if rate is not None:
        return run(house=CHOOSING[0], rate=rate, weight=of.usual)
    if of.weight is None:
        rate = next_value(scores(arm, CHOOSING[1], "rate"), RATES, 2.0)
        return None if rate is None else run(house=CHOOSING[1], rate=rate, weight=of.usual)
    weights = [round(of.usual * factor, 4) for factor in (1 / 3, 1, 3)]
    weight = next_value(scores(arm, CHOOSING[1], "weight"), weights, 3.0)
    if weight is None:
        return None
    return run(house=CHOOSING[1], rate=best_rate(arm), weight=weight)


def best_rate(arm: str) -> float:
    """Of an arm with a weight, the best of the first house; else the best mean of both."""
    houses = CHOOSING if ARMS[arm].weight is None else CHOOSING[:1]
    by_house = [scores(arm, house, "rate") for house in houses]
    rates = set.intersection(*map(set, by_house))
    return best_of({rate: sum(tried[rate] for tried in by_house) for rate in rates}, RATES[-1])


def choice(arm: str) -> tuple[float, float]:
    """The rate and the weight with which an arm goes to the eight houses."""
    tried = scores(arm, CHOOSING[1], "weight")
    usual = ARMS[arm].usual
    return best_rate(arm), usual if ARMS[arm].weight is None else best_of(tried, usual)


def choosing_runs(arms: Iterable[str]) -> Iterator[Run]:
    """In turns, so that what is not whole has something of each arm."""
    left = list(arms)
    while left:
        for arm in tuple(left):
            run = choosing_run(arm)
            if run is None:
                left.remove(arm)
            else:
                yield run


def result_runs(arms: Iterable[str], grid: Sequence[Part]) -> Iterator[Run]:
    """Of these arms and those like them; houses are outermost in each part of the grid."""
    chosen = {arm: choice(arm) for arm in arms}
    like_of = {arm: one.chosen or one.method for arm, one in LIKE.items()}
    chosen |= {arm: chosen[of] for arm, of in like_of.items() if of in chosen}
    for task, start, houses, of in grid:
        for house, arm in product(houses, of):
            if arm in chosen:
                rate, weight = chosen[arm]
                like = LIKE.get(arm, Like(arm))
                weight = weight if like.weight is None else like.weight
                rate = rate if like.rate is None else like.rate
                yield Run(arm, start, house, like.seed, rate, weight, task)


def words_of(run: Run) -> list[str]:
    """Overrides of the recipe's config, but for the problems."""
    like = LIKE.get(run.arm, Like(run.arm))
    of = ARMS[like.method]
    words = [*of.words, *like.words, f"actor_rollout_ref.actor.optim.lr={run.rate}", STEPS]
    if of.weight is not None:
        words.append(f"{of.weight}={run.weight}")
    if run.task == "seldom":
        words += SHUFFLED_SELDOM if run.arm == "fm shuffled" else SELDOM
    if run.task == "critique" and "rltf/method=grpo_single" not in words:
        words.append("rltf.episode.horizon=6")  # a critique names one choice of five
    if run.task == "fault":
        words.append("rltf.episode.stop_when_solved_train=false")
    if keeps(run):
        words.append(f"trainer.save_freq={NUM_STEPS}")
    return words


def train(study: Study, run: Run, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    words = words_of(run)
    family = {"seldom": "entries", "letters": "reply", "critique": "critique"}.get(run.task, "date")
    if run.task == "seldom":
        model = study.policy(family, rounds=1)
    else:
        model = study.model(family, run.start, run.house)
    if keeps(run):
        questions()  # what is asked at the end must be had, and that shows before the training
    if run.task in OWN_DATA:
        words += words_with_data(study, run)
        seconds = study.train_with(folder, model, words)
    else:
        seconds = study.play(folder, model, family, run.house, run.seed, words)
    line = {**asdict(run), **measured(folder, seconds)}
    if keeps(run):
        last = folder / f"checkpoints/global_step_{NUM_STEPS}/actor/huggingface"
        env = make_env(f"{HERE / 'house_style.py'}:HouseStyle", family=family)
        line["ability"] = ability(last)
        line["pass_at"] = passes(last, study.data(family, run.house) / "test.parquet", env)
        if run.arm in TODAY:
            line |= {part: retried(study, run, last, folder / part) for part in RETRIES}
        shutil.rmtree(folder / "checkpoints")
    return line


def retried(study: Study, run: Run, model: Path, folder: Path) -> list[float]:
    """Shares of the held-out answers that are right: the first ones, and after each retry."""
    words = [
        *(f"rltf/feedback={RETRIES[folder.name]}", "trainer.val_only=true"),
        *(f"rltf.episode.horizon={ROUNDS + 1}", "rltf.episode.val_feedback_every=1"),
    ]
    study.play(folder, model, "date", run.house, run.seed, words)
    (point,) = read_lines(folder / "metrics.jsonl")
    turns = ("1/acc", *(f"{n + 2}/standing" for n in range(ROUNDS)))
    return [round(point["data"][f"rltf_val/rltf/house_style/turn_{n}"], 4) for n in turns]


def keeps(run: Run) -> bool:
    """Whether it is measured what the model can still do at the end."""
    return (run.task, run.start, run.seed) == ("date", "zero", 1) and run.house in FEW


def words_with_data(study: Study, run: Run) -> list[str]:
    """Of the recipe's config, for a task with problems of its own; they are made where they are not
    there.
    """
    environment, option = OWN_DATA[run.task]
    name = f"data_{run.task}_{run.house}"
    sizes = ["--num-train", "512", "--num-test", "64"]
    build = ["rltf", "data", "build", environment, "--seed", str(run.house), option, *sizes]
    data = study.made(study.out / name, lambda out: study.call([*build, "--out", str(out / name)]))
    return [
        f"rltf.env.name={environment}",
        *("~rltf.env.family", f"+rltf.env.{option}"),
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        *("data.max_response_length=48", "trainer.logger=[file]"),
        *(f"rltf.seed={run.seed}", f"data.seed={run.seed}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/study_lm"))
    parser.add_argument("--hours", type=float, default=1000.0, help="start no run after so long")
    args = parser.parse_args()
    study = Study(args.out)
    # The second generator reads what the runs of the first one have found: it starts when they end.
    runs = chain(choosing_runs(ARMS), result_runs(ARMS, GRID))
    for run, folder in study.missing(runs, RESULTS, args.hours):
        line = train(study, run, folder)
        append_lines(RESULTS, [line])
        print(f"{run}: {[point['accuracy'] for point in line['curve']]}", flush=True)


if __name__ == "__main__":
    main()
