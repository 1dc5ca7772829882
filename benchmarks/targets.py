"""From a step's rows to its targets, beside a Python loop:
`OMP_NUM_THREADS=1 python benchmarks/targets.py`.

Ours is what the trainer does between two visits to the transfer queue: read the columns, compute
returns, baselines, advantages and the log-prob floor, hand back ragged columns. The loop is written
the way the release does it: lists of returns and a small tensor of advantages per group, then for
each row the shifted tokens, log-probs, advantages and mask of prompt and response as lists, made
tensors at the end. Both start from the same episodes and every advantage is compared. In groups of
8, two turns at most, 60 % of the episodes with two turns and so three rows (the third is the
distillation row); first prompts of 30 to 60 tokens, second ones of 95 to 165, responses of 20 to
60.

Not in the time of either: sampling, grading, moving data; in ours also the agent loop's work on an
episode, which is done while others are being sampled and is shown on a line of its own. Every size
is timed several times in turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
import verl.trainer.ppo.v1  # noqa: F401  # imports our trainers when it is done
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from transfer_queue import KVBatchMeta

from rltf_verl.adapters.queue.columns import FACTS, ROLE, TURN, episode_facts, row_columns
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.training.step import StepSettings, compute_step, target_columns
from rltf_verl.config import DistillConfig, RLTFConfig
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.objectives.distill import distill_rows
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import Attempt, Episode, Grade, Problem, Role, Turn

GAMMA, WEIGHT, FLOOR, GROUP = 0.1, 0.1, -5.0, 8
CONFIG = RLTFConfig(gamma=GAMMA, distill=DistillConfig(weight=WEIGHT, log_prob_floor=FLOOR))
METHOD = Method(CONFIG)
REWARDS = (-0.1, 0.0, 0.9, 1.0)

Datum = tuple[Any, ...]
"""input tokens, target tokens, log-probs, advantages, mask."""


@dataclass(slots=True)
class Played:
    """One turn as the sampler left it."""

    prompt: list[int]
    response: list[int]
    log_probs: list[float]
    reward: float


@dataclass(slots=True)
class Session:
    """One or two turns, and log π(y_K | x_0) of the last response under the first prompt."""

    turns: list[Played]
    student: list[float]


def play(num_sessions: int) -> list[list[Session]]:
    """Groups of episodes with random tokens, log-probs and rewards."""
    draw = np.random.default_rng(num_sessions)

    def ids(length: int) -> list[int]:
        return draw.integers(
            0, 256, length
        ).tolist()  # Python shares integers this small: in favour of the lists

    def log_probs(length: int) -> list[float]:
        return (-draw.exponential(2.0, length)).astype(np.float32).tolist()

    def turn(prompt: list[int], reward: float) -> Played:
        length = int(draw.integers(20, 61))
        return Played(prompt, ids(length), log_probs(length), reward)

    def session(prompt: list[int]) -> Session:
        if draw.random() < 0.4:
            return Session([turn(prompt, 1.0)], [])
        first = turn(prompt, float(draw.choice(REWARDS[:2])))
        second = turn(ids(5) + prompt + first.response + ids(40), float(draw.choice(REWARDS)))
        return Session([first, second], log_probs(len(second.response)))

    prompts = [ids(int(draw.integers(30, 61))) for _ in range(num_sessions // GROUP)]
    return [[session(prompt) for _ in range(GROUP)] for prompt in prompts]


# --- the loop
# -------------------------------------------------------------------------------------------------


def loop(groups: list[list[Session]], finish: Callable[[Datum], Datum]) -> list[Datum]:
    """Rows of all turns, then the distillation rows (which stand at the end there too)."""
    rows = []
    for group in groups:
        for session, advantages in zip(group, _advantages(group), strict=True):
            for turn, advantage in zip(session.turns, advantages.tolist(), strict=False):
                spread = [advantage] * len(turn.response)
                rows.append(finish(_datum(turn.prompt, turn.response, turn.log_probs, spread)))
    for group in groups:
        baseline = sum(session.turns[0].reward for session in group) / len(group)
        for session in group:
            if len(session.turns) > 1:
                base = session.turns[-1].reward - baseline
                mask = [1.0 if value >= FLOOR else 0.0 for value in session.student]
                spread = [base * WEIGHT * kept for kept in mask]
                prompt, response = session.turns[0].prompt, session.turns[-1].response
                rows.append(finish(_datum(prompt, response, session.student, spread)))
    return rows


def _advantages(group: list[Session]) -> torch.Tensor:
    """[episodes, turns], centred per turn over those that got there."""
    longest = max(len(session.turns) for session in group)
    returns = []
    for session in group:
        rewards = [turn.reward for turn in session.turns]
        own = [
            sum(GAMMA ** (k - t) * rewards[k] for k in range(t, len(rewards)))
            for t in range(len(rewards))
        ]
        returns.append(own + [float("nan")] * (longest - len(own)))
    table = torch.tensor(returns)
    advantages = torch.zeros_like(table)
    for t in range(longest):
        column = table[:, t]
        valid = ~torch.isnan(column)
        if valid.any():
            advantages[:, t] = torch.where(valid, column - column[valid].mean(), torch.tensor(0.0))
    return advantages


def _datum(
    prompt: list[int], response: list[int], log_probs: list[float], advantages: list[float]
) -> Datum:
    tokens, nothing = prompt + response, [0.0] * len(prompt)
    mask = nothing + [1.0] * len(response)
    return tokens[:-1], tokens[1:], (nothing + log_probs)[1:], (nothing + advantages)[1:], mask[1:]


def as_tensors(datum: Datum) -> Datum:
    """What the release hands to its trainer (without the validation and the copies of its data
    classes).
    """
    return datum[0], *(torch.tensor(values) for values in datum[1:])


# --- ours
# -------------------------------------------------------------------------------------------------


class Queue:
    """Columns as verl's transfer queue gives them; takes what is written."""

    def __init__(self, groups: list[list[Session]]) -> None:
        self.keys: list[str] = []
        rows: list[tuple[dict[str, torch.Tensor], list[float], list[float]]] = []
        for g, group in enumerate(groups):
            for s, session in enumerate(group):
                made = rows_of_episode(session)
                self.keys += [f"8c7a6b5c-0c3e-4d8e-9a55-{g:012d}_{s}_{n}" for n in range(len(made))]
                rows += made
        names = (ROLE, TURN, FACTS)
        self.columns = {name: _jagged(columns[name] for columns, _, _ in rows) for name in names}
        self.columns["old_log_probs"] = _jagged(torch.tensor(old) for _, old, _ in rows)
        self.columns["rollout_log_probs"] = _jagged(torch.tensor(sampler) for _, _, sampler in rows)
        self.columns["entropy"] = self.columns["old_log_probs"]
        self.batch = KVBatchMeta(
            self.keys, [{"response_len": len(old)} for _, old, _ in rows], "train", [], {}
        )
        self.written: dict[str, torch.Tensor] = {}

    def get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> dict[str, torch.Tensor]:
        """Stand-in for `kv_batch_get`: the benchmark always asks for all rows."""
        assert keys == self.keys
        return {name: self.columns[name] for name in select_fields}

    def put(self, keys: list[str], partition_id: str, fields: Any) -> KVBatchMeta:
        """Stand-in for `kv_batch_put`."""
        self.written.update(fields.items())
        return self.batch


def _jagged(rows: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def rows_of_episode(
    session: Session,
) -> list[tuple[dict[str, torch.Tensor], list[float], list[float]]]:
    """The agent loop's share: columns, log π_old and the sampler's log-probs of an episode's
    rows.
    """
    turns = tuple(
        Turn(
            Attempt(tuple(turn.prompt), tuple(turn.response), tuple(turn.log_probs), "", True),
            Grade(turn.reward > 0.5, turn.reward >= 0.0),
            turn.reward,
        )
        for turn in session.turns
    )
    episode = Episode(Problem("benchmark", 0, {}, ""), 0, turns)
    rows, facts = [*attempt_rows(episode), *distill_rows(episode)], episode_facts(episode, 2)
    return [
        (
            row_columns(row, facts),
            session.student if row.role[0] == Role.DISTILL else list(row.log_probs or ()),
            list(row.log_probs or ()),
        )
        for row in rows
    ]


def ours(batch: KVBatchMeta) -> None:
    """The trainer's steps from columns to columns."""
    step = StepRows.read(batch)
    targets = compute_targets(step.batch, METHOD, METHOD.weights(Now(0, 1)))
    step.write(target_columns(step.batch, targets))


def with_metrics(batch: KVBatchMeta, num_groups: int) -> None:
    """The trainer's whole step between two visits to the queue, every metric included."""
    verl = OmegaConf.create(
        {
            "algorithm": {},
            "data": {"max_response_length": 60, "train_batch_size": num_groups},
            "actor_rollout_ref": {
                "rollout": {"n": GROUP},
                "actor": {"policy_loss": {}, "entropy_coeff": 0, "use_kl_loss": False},
            },
        }
    )
    step = StepRows.read(batch)
    compute_step(step, StepSettings(METHOD, verl, Now(0, 1))).write(step)


# --- side by side
# -------------------------------------------------------------------------------------------------


def largest_difference(queue: Queue, rows: list[Datum]) -> float:
    """Between the two in any advantage; the log-probs, masks and lengths must be equal."""
    role = [int(values[0]) for values in queue.columns[ROLE].unbind()]
    order = [
        n
        for wanted in (Role.ATTEMPT, Role.DISTILL)
        for n, found in enumerate(role)
        if found == wanted
    ]
    advantages, old = queue.written["advantages"].unbind(), queue.columns["old_log_probs"].unbind()
    worst = 0.0
    for n, (_, targets, log_probs, theirs, mask) in zip(order, rows, strict=True):
        length = len(advantages[n])
        assert int(mask.sum()) == length
        assert len(targets) == len(mask) == len(log_probs)
        assert not theirs[:-length].any()
        assert torch.equal(log_probs[-length:], old[n])
        worst = max(worst, float((advantages[n] - theirs[-length:]).abs().max()))
    return worst


def measure(num_sessions: int, repeats: int) -> dict[str, Any]:
    """Median seconds of each way, timed in turns; wall clock and processor time."""
    groups = play(num_sessions)
    start = time.process_time()
    queue = Queue(groups)
    agent_loop = time.process_time() - start
    tq.kv_batch_get, tq.kv_batch_put = queue.get, queue.put
    ways: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(queue.batch),
        "ours with metrics": lambda: with_metrics(queue.batch, len(groups)),
        "loop": lambda: loop(groups, as_tensors),
        "loop, lists only": lambda: loop(groups, lambda datum: datum),
    }
    gc.collect()
    # so that the collector does not visit the inputs again and again while the loop runs
    gc.freeze()
    rows, difference = loop(groups, as_tensors), 0.0
    for name in ("ours", "ours with metrics"):
        ways[name]()
        difference = max(difference, largest_difference(queue, rows))
    del rows
    assert difference < 1e-6, difference
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            way()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    gc.unfreeze()
    return {
        "sessions": num_sessions,
        "rows": len(queue.keys),
        "response_tokens": int(queue.columns[ROLE].values().numel()),
        "largest_difference": difference,
        "agent_loop_cpu": agent_loop,
        "wall": {name: statistics.median(w for w, _ in values) for name, values in seconds.items()},
        "cpu": {name: statistics.median(c for _, c in values) for name, values in seconds.items()},
    }


def show(results: list[dict[str, Any]], console: Console) -> None:
    """One line per size."""
    table = Table(
        title=f"rows and advantages, {torch.get_num_threads()} thread(s): milliseconds, loop / ours"
    )
    for name in (
        "sessions",
        "rows",
        "ours",
        "with metrics",
        "loop",
        "loop / ours",
        "by CPU time",
        "lists only / ours",
        "ours per session, µs",
    ):
        table.add_column(name, justify="right")
    for result in results:
        wall, cpu = result["wall"], result["cpu"]
        table.add_row(
            f"{result['sessions']}",
            f"{result['rows']}",
            f"{1e3 * wall['ours']:.1f}",
            f"{1e3 * wall['ours with metrics']:.1f}",
            f"{1e3 * wall['loop']:.0f}",
            f"{wall['loop'] / wall['ours']:.0f}",
            f"{cpu['loop'] / cpu['ours']:.0f}",
            f"{wall['loop, lists only'] / wall['ours']:.0f}",
            f"{1e6 * wall['ours'] / result['sessions']:.2f}",
        )
    console.print(table)
    worst = max(result["largest_difference"] for result in results)
    each = 1e6 * results[-1]["agent_loop_cpu"] / results[-1]["sessions"]
    console.print(f"largest difference of any advantage: {worst:.1e}")
    console.print(
        f"the agent loop's share, while other sessions are sampled: {each:.0f} µs of CPU per"
        " session"
    )


def main() -> None:
    """Measure all sizes, print the table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    results = [measure(number, args.repeats) for number in args.sessions]
    show(results, Console())
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"targets_{torch.get_num_threads()}_threads.json"
    path.write_text(
        json.dumps({"threads": torch.get_num_threads(), "results": results}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
