"""verl's own evaluation of a checkpoint, our numbers from its episode log, and `rltf eval` of the
same weights; one training step for each family of environments.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.report.evaluation.results import evaluate
from tests.e2e import runs
from tests.support.commands import ran
from tests.support.judge.policy_server import ServedPolicy
from tests.support.judge.server import InThread, JudgeServer

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
TIMEOUT, STEPS, SAMPLES, ROUNDS, PROBLEMS = 900, 50, 8, 2, 8
LEARNING = [
    "actor_rollout_ref.actor.optim.lr=5e-4",
    "rltf.distill.weight=1.0",
    "data.train_batch_size=24",
    "actor_rollout_ref.rollout.n=2",
]
"""As in the demo: before, no first answer is right, and a metric that is 0 proves little."""
SOURCE = "rltf/binary_matrix"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run that saves its last weights, and verl's validation of them in a folder of its own."""
    root = tmp_path_factory.mktemp("evaluation")
    data = runs.build_data(root / "data")
    contents = "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"
    steps = f"trainer.total_training_steps={STEPS}"
    training = [steps, f"trainer.save_freq={STEPS}", "trainer.test_freq=-1", contents, *LEARNING]
    trained = runs.start(root / "trained", data, training).finished(TIMEOUT)
    before = sorted(path.name for path in trained.episodes.rglob("*"))
    checkpoint = trained.checkpoints / f"global_step_{STEPS}"
    validating = [
        "trainer.val_only=true",
        "trainer.val_before_train=true",
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={checkpoint}",
        f"rltf.episode.horizon={ROUNDS + 1}",
        f"actor_rollout_ref.rollout.val_kwargs.n={SAMPLES}",
        steps,
    ]
    validated = runs.start(root / "validated", data, validating).finished(TIMEOUT)
    assert sorted(path.name for path in trained.episodes.rglob("*")) == before, (
        "the training run's log is as it was"
    )
    return {
        "run": validated,
        "weights": checkpoint / "actor" / "huggingface",
        "data": data["data.val_files"],
    }


def test_our_numbers_are_verls(played: dict[str, Any]) -> None:
    metrics = played["run"].metrics()
    assert [(line["step"], any("actor/" in key for key in line["data"])) for line in metrics] == [
        (STEPS, False)
    ]
    ours = evaluate(read_episodes(played["run"].episodes))
    assert (ours.problems, ours.sessions, ours.samples) == (
        PROBLEMS,
        PROBLEMS * SAMPLES,
        (SAMPLES, SAMPLES),
    )
    turns = [f"turn_{k}" for k in range(1, ROUNDS + 2)]
    played = [ours.numbers[f"{turn}/acc"].cases for turn in turns]
    assert played == [PROBLEMS * SAMPLES] * (ROUNDS + 1), "no early stop"
    names = [
        f"val-core/{SOURCE}/acc",
        *(f"val-aux/{SOURCE}/acc_turn_{k}" for k in range(2, ROUNDS + 2)),
    ]
    verls = [metrics[0]["data"][f"{name}/mean@{SAMPLES}"] for name in names]
    assert [ours.numbers[f"{turn}/standing"].value for turn in turns] == pytest.approx(verls)
    assert 0 < verls[0] < 1, "a policy that is never or always right would prove little"


def test_the_endpoint_gives_what_the_trainer_gave(played: dict[str, Any], tmp_path: Path) -> None:
    server = JudgeServer(reply=ServedPolicy(played["weights"], runs.POLICY))
    with InThread(server):
        ran(
            "eval",
            str(played["data"]),
            f"endpoint.base_url={server.url}",
            "endpoint.model=tiny",
            f"endpoint.max_tokens={runs.RESPONSE_LENGTH}",
            "episode.revise=compact_guide",
            "feedback.provider=verifier",
            "feedback.level=full",
            "feedback.acknowledge_leaks=true",
            "feedback.guard.action=none",
            "-n",
            SAMPLES,
            "--rounds",
            ROUNDS,
            "--step",
            STEPS,
            "--out",
            tmp_path,
        )
    theirs, ours = (_texts(folder) for folder in (played["run"].episodes, tmp_path / "episodes"))
    assert ours.keys() == theirs.keys()
    # What is sampled together differs, so sums are in another order, and a token on the border may
    # flip.
    assert sum(ours[key] == theirs[key] for key in ours) >= 0.9 * len(ours)
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["results"][SOURCE]["sessions"] == PROBLEMS * SAMPLES


def _texts(folder: Path) -> dict[tuple[int, int], list[str]]:
    return {
        (r["index"], r["session_id"]): [turn["text"] for turn in r["turns"]]
        for r in read_episodes(folder)
    }


GROUP, BATCH = 2, 4
FRACTIONS = runs.ROOT / "recipes" / "smoke" / "data" / "math.jsonl"
ONE_STEP = [
    "trainer.total_training_steps=1",
    "trainer.save_freq=-1",
    "trainer.test_freq=-1",
    "data.max_prompt_length=480",
    f"actor_rollout_ref.rollout.n={GROUP}",
    f"data.train_batch_size={BATCH}",
]


@pytest.mark.parametrize(
    ("env", "options", "override", "feedback"),
    [
        ("shortest_path", {"style": "compact"}, "rltf.env.style=compact", r"[=xXRLUDN<>?~]*"),
        ("reasoning_gym", {"task": "chain_sum"}, "rltf.feedback.level=location", ".*incorrect.*"),
        # A hint does not hold the answer.
        ("math", {"source": str(FRACTIONS)}, "rltf.feedback.level=hint", "(?!.*frac).*"),
        # The tiny policy writes no program; the build runs ours.
        (
            "code",
            {"source": "arithmetic", "sandbox": "unsafe_process"},
            "rltf.env.sandbox=unsafe_process rltf.feedback.level=hint",
            ".*no Python program.*",
        ),
    ],
    ids=["marks of moves", "a verdict", "a hint", "no program"],
)
def test_one_step(
    tmp_path: Path, env: str, options: dict[str, str], override: str, feedback: str
) -> None:
    paths = build_parquet(env, tmp_path / "data", 0, 8, 2, **options)
    data = {"data.train_files": str(paths.train), "data.val_files": str(paths.test)}
    words = [*ONE_STEP, *override.split()]
    run = runs.start(tmp_path / "run", data, words, env=env).finished(400)
    (step,) = run.training_steps(1)
    assert (step["rltf/grader/error_share"], step["rltf/grader/ungraded_share"]) == (0, 0)
    episodes = read_episodes(run.episodes)
    assert len(episodes) == GROUP * BATCH
    assert {record["env"] for record in episodes} == {env}
    told = [turn["feedback"] for record in episodes for turn in record["turns"]]
    texts = [given["text"] for given in told if given]
    assert texts
    assert all(re.fullmatch(feedback, text, re.DOTALL) for text in texts)


def test_a_text_scored_by_a_judge_that_goes_down(tmp_path: Path) -> None:
    """A judge that is there for some answers only: those that it did not see train nothing, and the
    run goes on.
    """
    # What the tiny policy knows to answer: three lines of digits.
    lines = [
        json.dumps({"prompt": "\n".join(f"{i:09b}"[k : k + 3] for k in (0, 3, 6))})
        for i in range(100, 110)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    server = JudgeServer(
        reply=lambda body: "Critique: 010\n\nScore: 4", script=["ok"] * 5 + ["500"] * 1000
    )
    limits = "limits:{max_attempts:1,deadline_s:5}"
    with InThread(server):
        judge = f"rltf.env.judges=[{{endpoint:{{base_url:'{server.url}',model:m}},{limits}}}]"
        paths = build_parquet(
            "writing", tmp_path / "data", 0, 8, 2, path=str(tmp_path / "own.jsonl")
        )
        data = {"data.train_files": str(paths.train), "data.val_files": str(paths.test)}
        run = runs.start(
            tmp_path / "run", data, [*ONE_STEP, judge, "rltf.feedback.level=hint"], env="writing"
        ).finished(400)
    (step,) = run.training_steps(1)
    assert 0 < step["rltf/grader/ungraded_share"] < 1
    ends = [record["turns"][-1]["stop"] for record in read_episodes(run.episodes)]
    assert "ungraded" in ends
