"""verl's own modes on the CPU: partial rollouts on data-parallel workers, and LoRA. Replicas of
their own and merged adapters: test_gpu_rehearsal_e2e.py; gradients: also test_nodes_e2e.py.
"""

from pathlib import Path

import pytest
import torch

from tests.e2e import recorded, runs

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.usefixtures("one_thread"),
]
EXACT = 1e-4
WORKERS = "trainer.n_gpus_per_node=2"
LORA = (
    f"actor_rollout_ref.model.lora_rank={recorded.LORA_RANK}",
    f"actor_rollout_ref.model.lora_alpha={recorded.LORA_ALPHA}",
)


STEPS = 4


@pytest.fixture(scope="module")
def colocated(tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> runs.Run:
    """Partial rollouts, two data-parallel workers with a rollout replica each, many micro-batches.

    More problems are under way than a batch takes, and answers take long enough that every step
    interrupts some.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLTF_SECONDS_PER_TOKEN", "0.02")
        return recorded.played(
            tmp_path_factory.mktemp("colocated") / "run",
            data,
            "colocate_async",
            STEPS,
            WORKERS,
            "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=512",
            "trainer.v1.colocate_async.num_warmup_batches=2",
            "actor_rollout_ref.rollout.max_num_seqs=4",
        )


def test_interrupted_answers_go_on_with_the_next_weights(colocated: runs.Run) -> None:
    """Every token comes from one of its row's weight versions, in order; some answers come from two
    of them.
    """
    interrupted = 0
    for step in range(1, STEPS + 1):
        for row in recorded.rows(colocated, step):
            if not recorded.sampled(row).any():
                continue
            versions = range(row["tag"]["min_global_steps"], row["tag"]["max_global_steps"] + 1)
            gaps = [
                recorded.sampler_gap(recorded.policy(colocated.folder, v), row) for v in versions
            ]
            fits = torch.stack(gaps) < EXACT
            version = 0
            for token in range(fits.shape[1]):
                while version < len(versions) and not fits[version, token]:
                    version += 1
                assert version < len(versions), (
                    f"step {step}: token {token} was sampled by none of {versions}"
                )
            interrupted += not fits.all(1).any()
    assert interrupted > 0


def test_rows_wait_no_longer_than_their_tags_say(colocated: runs.Run) -> None:
    for step in range(1, STEPS + 1):
        for row in recorded.rows(colocated, step):
            tag = row["tag"]
            assert 0 <= tag["min_global_steps"] <= tag["max_global_steps"] <= step - 1
            assert tag["global_steps"] - 1 <= tag["max_global_steps"], (
                "not sampled before it was asked for"
            )
    assert any(
        r["tag"]["min_global_steps"] < s - 1
        for s in range(2, STEPS + 1)
        for r in recorded.rows(colocated, s)
    )


def test_the_rollout_follows_a_lora_policy(tmp_path: Path, data: dict[str, str]) -> None:
    """Its adapter, in full precision."""
    steps = 3
    adapter = (*LORA, "actor_rollout_ref.model.lora.merge=false")
    run = recorded.played(tmp_path / "run", data, "sync", steps, WORKERS, *adapter)
    for step in range(1, steps + 1):
        served = recorded.policy(run.folder, step - 1)
        sampled = [row for row in recorded.rows(run, step) if recorded.sampled(row).any()]
        assert sampled
        assert max(float(recorded.sampler_gap(served, row).max()) for row in sampled) < EXACT
    start, end = (dict(recorded.policy(run.folder, s).named_parameters()) for s in (0, steps))
    moved = {name for name in start if not torch.equal(start[name], end[name])}
    assert moved == {name for name in start if "_proj" in name}, (
        "the adapters moved, the base weights did not"
    )
