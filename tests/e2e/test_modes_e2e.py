"""verl's own modes on the CPU: partial rollouts, replicas of their own, data-parallel workers,
micro-batches, LoRA.
"""

import pytest
import torch

from tests.e2e import recorded, runs

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.usefixtures("one_thread"),
]
EXACT, GRADIENT = 1e-4, 1e-5
DYNAMIC = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
WORKERS = "trainer.n_gpus_per_node=2"
LORA = (
    f"actor_rollout_ref.model.lora_rank={recorded.LORA_RANK}",
    f"actor_rollout_ref.model.lora_alpha={recorded.LORA_ALPHA}",
)


def micro_batches(size: int) -> list[str]:
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return [
        f"{actor}.use_dynamic_bsz=false",
        f"{actor}.ppo_micro_batch_size_per_gpu={size}",
        f"{rollout}.log_prob_micro_batch_size_per_gpu={size}",
    ]


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
            f"{DYNAMIC}=512",
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


def test_two_workers_take_the_step_of_one_plain_gradient(colocated: runs.Run) -> None:
    largest = 0.0
    for step in range(1, STEPS + 1):
        taken = recorded.step_taken(colocated, step)
        assert recorded.largest_difference(taken, recorded.gradient(colocated, step)) < GRADIENT, (
            f"step {step}"
        )
        largest = max(largest, *(float(g.abs().max()) for g in taken.values()))
    assert largest > 1000 * GRADIENT


def test_the_gradient_does_not_depend_on_workers_or_micro_batches(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]
) -> None:
    """One update from the same seeds and data, five ways."""
    root = tmp_path_factory.mktemp("gradients")
    ways = {
        "one worker, one micro-batch": [],
        "one worker, packed by 256 tokens": [f"{DYNAMIC}=256"],
        "one worker, two rows at a time": micro_batches(2),
        "two workers": [WORKERS],
        "two workers, three rows at a time": [WORKERS, *micro_batches(3)],
    }
    played = [
        recorded.played(root / str(i), data, "sync", 1, *way) for i, way in enumerate(ways.values())
    ]
    first = recorded.step_taken(played[0], 1)
    assert recorded.largest_difference(first, recorded.gradient(played[0], 1)) < GRADIENT
    for way, run in zip(ways, played, strict=True):
        assert _answers(run) == _answers(played[0]), f"{way}: sampled something else"
        assert recorded.largest_difference(recorded.step_taken(run, 1), first) < GRADIENT, way


def _answers(run: runs.Run) -> list[tuple[list[int], list[int]]]:
    return sorted((r["prompts"].tolist(), r["responses"].tolist()) for r in recorded.rows(run, 1))


def test_replicas_of_their_own_get_the_weights_and_old_log_probs_stay_those_of_the_last_sync(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]
) -> None:
    """Two updates per synchronisation. A row of the first sync was sampled by π_old of both
    updates.
    """
    steps, updates = 3, 2
    run = recorded.played(
        tmp_path_factory.mktemp("separate") / "run",
        data,
        "separate_async",
        steps,
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.actor.ppo_mini_batch_size=6",
        f"trainer.v1.separate_async.parameter_sync_step={updates}",
    )
    newest = 0
    for step in range(1, steps + 1):
        for update in range(updates):
            rows = recorded.rows(run, step, update)
            with torch.no_grad():
                olds = recorded.log_probs(recorded.policy(run.folder, step - 1), rows)
            for row, old in zip(rows, olds, strict=True):
                # Tokens that nobody sampled may be unlikely: 1.4e-4 of float32 rounding was seen.
                assert (old - row["old_log_probs"]).abs().max() < 5 * EXACT, (
                    f"step {step}, update {update}"
                )
                low, high = row["tag"]["min_global_steps"], row["tag"]["max_global_steps"]
                newest = max(newest, high)
                if low == high and recorded.sampled(row).any():
                    assert recorded.sampler_gap(recorded.policy(run.folder, low), row).max() < EXACT
    assert newest > 0, "no answer was sampled with weights that a replica had received"


@pytest.mark.parametrize("merge", [False, True], ids=["adapter", "merged"])
def test_the_rollout_follows_a_lora_policy(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, str], merge: bool
) -> None:
    """As an adapter in full precision; merged by verl 0.9.1, which rounds what it sends, in
    bfloat16.
    """
    steps = 3
    run = recorded.played(
        tmp_path_factory.mktemp("lora") / "run",
        data,
        "sync",
        steps,
        WORKERS,
        *LORA,
        f"actor_rollout_ref.model.lora.merge={merge}",
    )
    for step in range(1, steps + 1):
        actor = recorded.policy(run.folder, step - 1)
        served = recorded.in_bf16(actor) if merge else actor
        sampled = [row for row in recorded.rows(run, step) if recorded.sampled(row).any()]
        assert sampled
        assert max(float(recorded.sampler_gap(served, row).max()) for row in sampled) < EXACT
    start, end = (dict(recorded.policy(run.folder, s).named_parameters()) for s in (0, steps))
    moved = {name for name in start if not torch.equal(start[name], end[name])}
    assert moved == {name for name in start if "_proj" in name}, (
        "the adapters moved, the base weights did not"
    )
