"""Trying a judge by hand: a few problems in full."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import attempt_of
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.feedback.judge_prompt import as_text
from rltf_verl.feedback.judge_provider import JudgeProvider
from rltf_verl.tools.feedback.attempts import as_asked, request_about
from rltf_verl.tools.feedback.verdicts import only_praises


@dataclass(frozen=True)
class Trial:
    """One question to the judge, and what came of it."""

    index: int
    prompt: str
    raw: str = ""
    feedback: str = ""
    noted: tuple[str, ...] = ()
    """Breaches of the required form, e.g. `no_marker`."""
    leak: str = ""
    """The leak guard's verdict on the feedback; empty without a leak."""
    praise: bool = False
    """It calls the attempt, which is wrong, right."""
    seconds: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    """Tokens of the prompt and of the reply."""
    cost: float = 0.0
    error: str | None = None


def wrong_attempts(env: Env, seed: int, num: int) -> list[FeedbackRequest]:
    """Problems of an environment, each answered with the reference answer of another one."""
    # more than requested: the answer of another problem may be right here
    problems = env.build(seed, 4 * num + 4, 0).train
    requests = []
    for problem, other in pairwise(problems):
        text = f"The answer is\n\\boxed{{{other.reference}}}"
        grade = env.grade(problem, text)
        if not grade.correct:
            requests.append(
                request_about(env, as_asked(env, problem), attempt_of(env, text), grade)
            )
    return requests[:num]


async def try_judge(provider: JudgeProvider, requests: Sequence[FeedbackRequest]) -> list[Trial]:
    """Ask about each request once, all at the same time."""
    return list(await asyncio.gather(*(_try(provider, request) for request in requests)))


async def _try(provider: JudgeProvider, request: FeedbackRequest) -> Trial:
    messages = provider.messages(request)
    prompt = as_text(messages)
    start = time.monotonic()
    try:
        reply, parsed = await provider.ask(messages, request.seed)
    except FeedbackUnavailable as error:
        return Trial(
            request.problem.index, prompt, seconds=time.monotonic() - start, error=error.cause
        )
    tokens = (reply.prompt_tokens, reply.completion_tokens)
    leaks = find_leaks(request.env, request.problem, parsed.text, request.turns[-1].attempt.text)
    return Trial(
        index=request.problem.index,
        prompt=prompt,
        raw=reply.text,
        feedback=parsed.text,
        noted=parsed.noted,
        leak=leaks[0].verdict(parsed.text) if leaks else "",
        praise=only_praises(parsed.text),
        seconds=time.monotonic() - start,
        tokens=tokens,
        cost=0.0 if reply.cached else provider.settings.price.of(*tokens),
        error=None if parsed.text else provider.unusable(parsed).cause,
    )
