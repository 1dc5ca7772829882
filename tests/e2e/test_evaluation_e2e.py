"""verl's own evaluation of a checkpoint, our numbers from its episode log, and `rltf eval` of the
same weights.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.runlog.episodes import read_episodes
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
