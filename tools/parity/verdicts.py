"""Verdicts, rewards and extracted texts of the release's environments, for those that exist
here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltf_verl.config import EpisodeConfig, RewardConfig, RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.envs.knights_knaves.text import read_release_roles
from rltf_verl.envs.math.env import Math
from rltf_verl.envs.shortest_path.text import read_release_path, spell
from rltf_verl.envs.text.boxed import extract_boxed
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.feedback import make_provider
from rltf_verl.types import Attempt, Episode, Grade, Message, Problem, Turn
from tools.parity.release_fm import END_OF_TURN, release_critique
from tools.parity.report import Check, Json, Report

PART = "env_checks"


def compare_env_checks(part: Any, report: Report) -> None:
    """All checks that have a counterpart; the others are named as not compared."""
    if part is not None and not isinstance(part, Mapping):
        report.skip(f"{PART}: not a mapping")
        return
    for name, checks in (part or {}).items():
        listed = isinstance(checks, list)
        if name not in COMPARED or not listed:
            report.skip(
                f"{PART} {name}: {REASONS.get(name, 'not known here')}",
                len(checks) if listed else 1,
            )
            continue
        for i, item in enumerate(checks):
            with report.skipping(f"{PART} {name}[{i}]"):
                COMPARED[name](item, Check(report, f"{PART} {name}[{i}]"))


def _compare_boxed(item: Json, check: Check) -> None:
    try:
        ours, error = extract_boxed(item["text"]), "none"
    except ValueError as raised:
        ours, error = "none", type(raised).__name__
    check.text("value", ours, "none" if item["value"] is None else item["value"])
    check.text("error", error, "none" if item["error"] is None else item["error"])


def _compare_matrix(item: Json, check: Check) -> None:
    grade = _grade("binary_matrix", item)
    check.close(
        "format, correct", [grade.format_ok, grade.correct], [item["format"], item["correct"]]
    )


def _compare_knights(item: Json, check: Check) -> None:
    grade = _grade("knights_knaves", item)
    check.close(
        "format, correct", [grade.format_ok, grade.correct], [item["format"], item["correct"]]
    )
    if "normalized" in item and grade.parsed is not None:
        ours = sorted(" ".join(pair) for pair in read_release_roles(grade.parsed))
        check.text(
            "normalized",
            ", ".join(ours),
            ", ".join(sorted(" ".join(pair) for pair in item["normalized"])),
        )


def _compare_path(item: Json, check: Check) -> None:
    check.close("correct", _grade("shortest_path", item).correct, item["correct"])
    if "normalized" in item:
        theirs = item["normalized"]
        theirs = theirs if isinstance(theirs, str) else ", ".join(theirs)
        check.text("normalized", spell(read_release_path(item["boxed"])), theirs)


def _grade(env: str, item: Json) -> Grade:
    text = f"\\boxed{{{item['boxed']}}}"
    return make_env(env, mode="official").grade(_problem(env, item), text)


def _compare_math(item: Json, check: Check) -> None:
    problem = Problem(Math.name, 0, {"question": ""}, item["ground_truth"])
    grade = Math(mode="official").grade(problem, f"\\boxed{{{item['boxed']}}}")
    check.close("correct", [grade.correct], [item["math_verify"]])
    if "sympy" in item:
        check.report.skip(f"{PART} math: the release's other grader (sympy) is not offered here")
    check.report.skip_unknown(
        f"{PART} math", item, {"ground_truth", "boxed", "math_verify", "sympy"}
    )


def _compare_critique(item: Json, check: Check) -> None:
    check.report.skip_unknown(f"{PART} critique_extraction", item, {"judge_output", *JUDGED})
    for env in (name for name in JUDGED if name in item):
        ours = release_critique(item["judge_output"], last_line_only=env == "knights_knaves")
        check.text(env, ours, item[env])


def _compare_rewards(item: Json, check: Check) -> None:
    if item.get("env") not in PROBLEMS:
        check.report.skip(f"{PART} reward of {item.get('env')}: this environment is not compared")
        return
    played = asyncio.run(_play(item)).turns
    check.close("turns", len(played), len(item["turns"]))
    for k, (turn, theirs) in enumerate(zip(played, item["turns"], strict=False), start=1):
        check.close(f"turn {k} reward", turn.reward, theirs["reward"])
        check.close(f"turn {k} done", turn.stop is not None, theirs["done"])
        ours = _metrics(turn, k, item["horizon"])
        check.report.skip_unknown(f"{PART} reward metric", theirs["metrics"], set(ours))
        for name, value in theirs["metrics"].items():
            if name in ours:
                check.close(f"turn {k} {name}", ours[name], value)


def _metrics(turn: Turn, k: int, horizon: int) -> dict[str, float]:
    """What the release logs of a turn, from 1."""
    format_ok, correct = turn.grade.format_ok and turn.attempt.ended, turn.grade.correct
    verdict = {"stage": k, f"y{k}_format": format_ok, f"y{k}_correct": correct}
    if turn.stop is None:
        return {**verdict, "has_critique": turn.feedback is not None}
    return {
        **verdict,
        "format": format_ok,
        "correct": correct,
        "early_termination": correct and k < horizon,
    }


async def _play(item: Json) -> Episode:
    """The episode again, with the answers of the file."""
    config = RLTFConfig(
        episode=EpisodeConfig(
            horizon=item["horizon"],
            stop_when_solved_train=item["early_termination"],
            revise="critique",
            quote="all",
        ),
        reward=RewardConfig(intermediate=item["reward_y1"]),
    )
    parts = Parts(config, make_env(item["env"], mode="official"), make_provider("correctness"))
    policy = _Scripted([turn["response"] for turn in item["turns"]])
    question = [{"role": "user", "content": ""}]
    problem = _problem(item["env"], item)
    return await EpisodePlayer(
        parts, policy, problem, question, session_id=0, validate=False, seed_of=lambda place: 0
    ).play()


def _problem(env: str, item: Json) -> Problem:
    """The problem of an item, with what the official grader reads of it."""
    return Problem(env, 0, {ours: item[theirs] for ours, theirs in PROBLEMS[env].items()}, "")


@dataclass
class _Scripted:
    """Says what the file says, then nothing."""

    responses: Sequence[str]
    prompt_budget: int = 1
    special_tokens: tuple[str, ...] | None = None
    num_sampled: int = field(default=0, init=False)

    async def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return (0,)

    async def encode_unthinking(self, messages: Sequence[Message]) -> tuple[int, ...]:
        raise NotImplementedError

    async def extend(
        self, ids: tuple[int, ...], messages: Sequence[Message], message: Message
    ) -> tuple[int, ...]:
        raise NotImplementedError

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        raise NotImplementedError

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        raise NotImplementedError

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        text = self.responses[self.num_sampled] if self.num_sampled < len(self.responses) else ""
        self.num_sampled += 1
        return Attempt(
            prompt_ids, (1,), None, text.removesuffix(END_OF_TURN), ended=text.endswith(END_OF_TURN)
        )


PROBLEMS: dict[str, dict[str, str]] = {
    "binary_matrix": {"solution": "solution"},
    "knights_knaves": {"solution_text": "solution"},
    "shortest_path": {key: key for key in ("grid", "start", "dest", "answer")},
}
"""Environment -> field of `Problem.data` -> its name in the file."""
JUDGED = ("knights_knaves", "binary_matrix", "shortest_path", "math")
COMPARED: dict[str, Callable[[Json, Check], None]] = {
    "reward": _compare_rewards,
    "extract_boxed": _compare_boxed,
    "binary_matrix": _compare_matrix,
    "knights_knaves": _compare_knights,
    "shortest_path": _compare_path,
    "math": _compare_math,
    "critique_extraction": _compare_critique,
}
REASONS = {"prompt_hashes": "prompts of judges and second turns are worded anew here"}
