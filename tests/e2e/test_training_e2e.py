"""The real verl trainer on the CPU, end to end: agreement of log-probs, the gradient, one update,
kill and resume. Feedback and template are a user's own files.
"""

import json
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.types import Role
from tests.e2e import recorded, runs
from tests.support.commands import ran

pytestmark = pytest.mark.e2e
STEPS, KILLED_IN, SAVED_AT, TIMEOUT = 3, 3, 2, 900
GAMMA, FLOOR = 0.1, -5.0
DISTILL, FEEDBACK, IMITATE = 0.5, 0.02, 0.3
"""Weights of the objectives, as in `runs.RECORDED`."""
MINE = """
from dataclasses import replace

from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.verifier import VerifierProvider


class Mine(VerifierProvider):
    name = "mine"

    def __init__(self, every: int = 0) -> None:
        super().__init__(level="full")
        self.every = every

    async def feedback(self, request):
        index = request.problem.index % self.every
        if index == 0 or (index == 1 and len(request.turns) == 2):
            raise FeedbackUnavailable(self.name, "not for this problem")
        return replace(await super().feedback(request), provider=self.name)
"""
"""Unavailable for every third problem, and on the second turn for another third, so that episodes
are ragged."""

OWN = [
    "rltf.feedback.provider=./mine.py:Mine",
    "+rltf.feedback.every=3",
    "rltf.episode.revise=./mine.j2",
]
GUARD = "rltf.feedback.guard.action=warn"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def both(root: Path, data: dict[str, str]) -> tuple[runs.Run, runs.Run]:
    """(uninterrupted run, run that was killed in step 3 and resumed from step 2)."""
    settings = [*runs.RECORDED, *OWN, GUARD, f"trainer.total_training_steps={STEPS}"]
    for name in ("whole", "broken"):
        (root / name).mkdir()
        (root / name / "mine.py").write_text(MINE)
        (root / name / "mine.j2").write_text("!{{ feedback }}\n{{ question }}")
    whole = runs.start(root / "whole", data, [*settings, "trainer.save_freq=1"]).finished(TIMEOUT)
    settings.append(f"trainer.save_freq={SAVED_AT}")
    broken = runs.start(root / "broken", data, settings)
    runs.wait_for(lambda: broken.played(KILLED_IN), broken, TIMEOUT)
    broken.kill()
    assert broken.wait(1) == -9, "it ended before it was killed"
    resumed = runs.start(root / "broken", data, settings).finished(TIMEOUT)
    return whole, resumed


def test_a_resumed_run_gives_the_same_episodes(both: tuple[runs.Run, runs.Run]) -> None:
    """The same problems at every step, each session once."""
    whole, again = map(_everything, both)
    assert whole.keys() == again.keys()
    differing = _first_differing(whole, again)
    assert len(differing) <= 1
    for key in differing:
        texts = [[text for text, *_ in episodes[key]] for episodes in (whole, again)]
        assert texts[0] != texts[1], "only a token may flip"


def _first_differing(
    one: dict[tuple[int, int, int], Any], other: dict[tuple[int, int, int], Any]
) -> list[tuple[int, int, int]]:
    """The episodes of the first step in which any differs. To the token all are alike, but for one
    perhaps: which episodes are sampled together depends on time, sums in another order differ by
    rounding, a token may flip, and that is another gradient for all later steps.
    """
    differing = [key for key in one if one[key] != other[key]]
    return [key for key in differing if key[0] == min(differing)[0]]


def _everything(run: runs.Run) -> dict[tuple[int, int, int], list[Any]]:
    """(step, problem, episode) -> every turn with its feedback. Each stands in the log once."""
    records = [r for r in read_episodes(run.episodes) if r["split"] == "train"]
    keyed = {
        (r["step"], r["index"], r["session_id"]): [
            (t["text"], t["reward"], t["error"], t["feedback"] and _without_clock(t["feedback"]))
            for t in r["turns"]
        ]
        for r in records
    }
    assert len(keyed) == len(records) == STEPS * 12 * 3
    return keyed


def _without_clock(feedback: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in feedback.items() if key != "latency_s"}


def test_an_own_file_s_feedback_and_what_the_guard_found_are_in_the_metrics(
    both: tuple[runs.Run, runs.Run],
) -> None:
    whole, _ = both
    assert f"\nrltf: next: rltf view {whole.episodes} " in whole.log
    steps = [line["data"] for line in whole.metrics() if "rltf/turn_1/acc" in line["data"]]
    assert len(steps) == STEPS
    for step in steps:
        assert step["rltf/feedback/leak_share"] > 0.9, "level full states the answer"
        # `other`: no provider of ours
        assert step["rltf/feedback/leak_share/other"] == step["rltf/feedback/leak_share"]


def test_the_killed_run_left_no_broken_line(both: tuple[runs.Run, runs.Run]) -> None:
    """Each line that has an end. What a kill lets a worker write of its last one, nothing or a
    part, has none.
    """
    episodes = both[1].episodes
    aside = list((episodes / "superseded").rglob("*.train.*.jsonl"))
    lines = {file: file.read_bytes().split(b"\n")[:-1] for file in episodes.rglob("*.jsonl")}
    assert any(lines[file] for file in aside), (
        "the killed step's sessions were moved aside, not deleted"
    )
    for line in chain.from_iterable(lines.values()):
        json.loads(line)
    assert all(file.read_bytes().endswith(b"\n") for file in episodes.glob("*.jsonl"))


def test_the_killed_run_has_the_metrics_of_each_step_once(both: tuple[runs.Run, runs.Run]) -> None:
    for run in both:
        lines = (run.folder / "metrics.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(1, STEPS + 1))


def test_sampler_and_actor_agree_on_attempt_rows_while_the_weights_move(
    both: tuple[runs.Run, runs.Run],
) -> None:
    whole, _ = both
    assert max(float(own.abs().max()) for own in recorded.step_taken(whole, 1).values()) > 1e-3
    for step in range(1, STEPS + 1):
        for row in recorded.rows(whole, step):
            if row["role"] == Role.ATTEMPT:
                gap = (row[recorded.SAMPLER] - row["old_log_probs"])[recorded.sampled(row)]
                assert gap.abs().max() < 1e-4, f"step {step}"


def test_old_log_probs_are_those_of_each_rows_own_prompt(both: tuple[runs.Run, runs.Run]) -> None:
    """Also of the roles that nobody sampled under that prompt, whose unlikely tokens round more."""
    whole, _ = both
    for step in (1, STEPS):
        rows = recorded.rows(whole, step)
        assert {row["role"] for row in rows} >= {Role.ATTEMPT, Role.DISTILL, Role.FEEDBACK_MODELING}
        assert step != 1 or any(row["role"] == Role.IMITATE for row in rows)
        with torch.no_grad():
            expected = recorded.log_probs(recorded.policy(whole.folder, step - 1), rows)
        for row, own in zip(rows, expected, strict=True):
            assert (own - row["old_log_probs"]).abs().max() < 5e-4


def test_ragged_episodes_make_one_update_whose_step_is_the_reference_gradient(
    both: tuple[runs.Run, runs.Run],
) -> None:
    """Of all rows, though those without an advantage were left out."""
    whole, _ = both
    updated = {
        record["step"]: record["data"]["rltf/rows/updated_share"]
        for record in whole.metrics()
        if "rltf/rows/updated_share" in record["data"]
    }
    for step in (1, STEPS):
        rows = recorded.rows(whole, step)
        sizes = {
            sum(row["role"] != Role.IMITATE for row in part) for part in _by_episode(rows).values()
        }
        assert sizes == {
            1,
            4,
            6,
        }, "1, 2, 3 turns: 1, 2, 3 attempts; 0, 1, 2 feedbacks; 0, 1, 1 distilled"
        advantages = _plain_advantages(rows)
        live = sum(bool((own.abs() > 1e-6).any()) for own in advantages)  # not a rounded 0
        assert live < len(rows)
        assert updated[step] == pytest.approx(live / len(rows))
        denominator = recorded.record(whole, step)["settings"]["rltf_denominator"]
        assert denominator == len(_by_episode(rows)) * runs.RESPONSE_LENGTH
        expected = recorded.gradient(whole, step, advantages=advantages)
        taken = recorded.step_taken(whole, step)
        assert recorded.largest_difference(taken, expected) < 1e-5, f"step {step}"


def test_the_trained_policy_is_exported(both: tuple[runs.Run, runs.Run], tmp_path: Path) -> None:
    whole, _ = both
    ran("export", whole.folder / "checkpoints", tmp_path / "own")
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "own").state_dict()
    for name, weight in recorded.policy(whole.folder, STEPS).named_parameters():
        assert torch.equal(exported[name], weight.bfloat16()), name
    assert f"Trained for {STEPS} steps" in (tmp_path / "own/README.md").read_text()


def _plain_advantages(rows: list[dict[str, Any]]) -> list[torch.Tensor]:
    """The paper's Algorithm 1 as loops over episodes; shares nothing with the code under test."""
    rewards = {
        s: [
            float(r["rm_scores"].sum())
            for r in sorted(part, key=lambda r: int(r["rltf_turn"][0]))
            if r["role"] == Role.ATTEMPT
        ]
        for s, part in _by_episode(rows).items()
    }
    groups = defaultdict(list)
    for episode in rewards:
        groups[episode.rsplit("_", 1)[0]].append(episode)

    def of(row: dict[str, Any]) -> torch.Tensor:
        episode, turn = row["episode"], int(row["rltf_turn"][0])
        siblings = [rewards[s] for s in groups[episode.rsplit("_", 1)[0]]]
        if row["role"] == Role.DISTILL:
            advantage = rewards[episode][-1] - sum(r[0] for r in siblings) / len(siblings)
            soft = (row["old_log_probs"] - FLOOR).clamp(max=0).exp()
            return DISTILL * advantage * soft
        if row["role"] in (Role.FEEDBACK_MODELING, Role.IMITATE):
            return torch.full_like(
                row["old_log_probs"], FEEDBACK if row["role"] == Role.FEEDBACK_MODELING else IMITATE
            )
        returns = [
            sum(GAMMA**j * x for j, x in enumerate(r[turn:])) for r in siblings if len(r) > turn
        ]
        own = sum(GAMMA**j * x for j, x in enumerate(rewards[episode][turn:]))
        return torch.full_like(row["old_log_probs"], own - sum(returns) / len(returns))

    return [of(row) for row in rows]


def _by_episode(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    episodes = defaultdict(list)
    for row in rows:
        episodes[row["episode"]].append(row)
    return episodes
