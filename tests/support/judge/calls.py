"""Requests and settings for judge tests."""

from typing import Any

from rltf_verl.feedback.base import FeedbackRequest
from rltf_verl.judge.settings import Endpoint, JudgeLimits, JudgeSettings
from rltf_verl.judge.wire import Call
from rltf_verl.types import Attempt, Grade, Problem, Turn

QUICK = {"backoff_s": 0.01, "backoff_cap_s": 0.05, "request_timeout_s": 5.0, "deadline_s": 60.0}
"""Limits for tests: short waits, long patience."""


def settings(
    url: str, *, cache_dir: object = None, endpoint: dict[str, Any] | None = None, **limits: Any
):
    return JudgeSettings(
        Endpoint(url, "m", **(endpoint or {})),
        JudgeLimits(**{**QUICK, **limits}),
        cache_dir=str(cache_dir) if cache_dir else None,
    )


def call(seed: int = 0, text: str = "Is it right?") -> Call:
    return Call(({"role": "user", "content": text},), seed)


def request(
    attempt: str, *, question: str = "What is 6 · 7?", seed: int = 1, **data: Any
) -> FeedbackRequest:
    problem = Problem(env="none", index=7, data=data, reference="42")
    turn = Turn(
        Attempt((1,), (2,), None, attempt, ended=True), Grade(correct=False, format_ok=True), 0.0
    )
    return FeedbackRequest(
        None, problem, [{"role": "user", "content": question}], [turn], 0, None, seed
    )  # type: ignore[arg-type]
