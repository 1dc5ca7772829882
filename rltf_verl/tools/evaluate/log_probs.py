"""Log-probs of last answers under the first prompt and under their own, from an endpoint with
`prompt_logprobs`.

vLLM has it in chat completions: the answer is sent as a last message that is to be continued, and
what comes back with one new token are the log-probs of the whole prompt. Where the answer begins
in it is found by its text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rltf_verl.config import EpisodeConfig
from rltf_verl.episode.revise import revise
from rltf_verl.judge.runtime import JudgeRuntime
from rltf_verl.judge.wire import Call, JudgeUnavailable, Reply, ScoredReply
from rltf_verl.runlog.turns import Record, lines
from rltf_verl.tools.data.questions import QuestionRow
from rltf_verl.tools.evaluate.endpoint_policy import EndpointPolicy
from rltf_verl.tools.evaluate.play import part_of
from rltf_verl.tools.evaluate.settings import Evaluation
from rltf_verl.tools.report.evaluation.bootstrap import problem_key
from rltf_verl.tools.report.probe.log_probs import Gap, ScoredAnswer, gap_of
from rltf_verl.types import Attempt, Feedback, Grade, Message, Turn

ASKS = {"prompt_logprobs": 0, "add_generation_prompt": False, "continue_final_message": True}
"""More fields of the request body: of every prompt token its own log-prob and no others."""
FILE = "log_probs.json"
"""In the folder of an evaluation."""


@dataclass(frozen=True)
class _Answer:
    episode: Record
    text: str
    first: tuple[Message, ...]
    later: tuple[Message, ...]


def write_log_probs(
    out: Path,
    evaluation: Evaluation,
    episodes: Sequence[Record],
    questions: Sequence[QuestionRow],
    most: int,
) -> None:
    """Write the log-probs of the last answers of the first `most` episodes that have a later one.

    Raises:
        ValueError: the endpoint gives none, or there is no such episode.
    """
    scored, asked = asyncio.run(_scored_answers(evaluation, episodes, questions, most))
    made = {"asked": asked, "answers": list(map(asdict, scored))}
    (out / FILE).write_text(json.dumps(made) + "\n", encoding="utf-8")


def read_gap(log: Path) -> Gap | None:
    """The gap of an evaluation's answers, by its episode log; None if it was not asked for."""
    path = log.parent / FILE
    if not path.exists():
        return None
    rows = part_of(path, "answers", list)
    answers = [ScoredAnswer(**{**row, "problem": tuple(row["problem"])}) for row in rows]
    return gap_of(answers, part_of(path, "asked", int))


async def _scored_answers(
    evaluation: Evaluation, episodes: Sequence[Record], questions: Sequence[QuestionRow], most: int
) -> tuple[list[ScoredAnswer], int]:
    played = ((episode, lines(episode["turns"])[-1]) for episode in episodes)
    chosen = [
        (episode, line) for episode, line in played if len(line) > 1 and line[-1]["text"].strip()
    ][:most]
    if not chosen:
        raise ValueError(f"--log-probs {most}: no episode has a second answer")
    endpoint = evaluation.policy.endpoint
    asks = json.dumps({**json.loads(endpoint.extra_body), **ASKS})
    policy = replace(
        evaluation.policy,
        endpoint=replace(endpoint, max_tokens=1, temperature=1.0, extra_body=asks),
    )
    runtime = JudgeRuntime(policy)
    encodes = EndpointPolicy(runtime, evaluation.prompt_budget)
    config = evaluation.parts.config.episode
    try:
        answers = [
            await _answer(encodes, config, s, line, questions[int(s["uid"])].messages)
            for s, line in chosen
        ]
        first = await _score(runtime, answers[0])  # one answer tells whether the endpoint can
        rest = await asyncio.gather(*(_score(runtime, answer) for answer in answers[1:]))
    finally:
        await runtime.aclose()
    known_answers = [scored for scored in (first, *rest) if scored is not None]
    if not known_answers:
        raise ValueError(
            f"--log-probs {most}: the answers are not in the prompts that the endpoint's chat"
            " template made of them"
        )
    return known_answers, len(chosen)


async def _answer(
    policy: EndpointPolicy,
    config: EpisodeConfig,
    episode: Record,
    line: Sequence[Record],
    question: tuple[Message, ...],
) -> _Answer:
    """The last answer, and the prompt that it was sampled from, made again."""
    conversation, prompt = question, question
    for before in line[:-1]:
        attempt = Attempt((), (), None, before["text"], ended=before["ended"])
        turn = Turn(attempt, Grade(correct=False, format_ok=True), 0.0)
        given = Feedback(before["feedback"]["text"], before["feedback"]["provider"])
        revision = await revise(policy, config, conversation, question, turn, given)
        if revision.ids is None:  # it was played, so it did fit
            raise ValueError(
                "a later prompt does not fit any more; is --max-prompt-chars another one?"
            )
        conversation = revision.messages
        prompt = tuple(json.loads("".join(policy.pieces(revision.ids))))
    return _Answer(episode, line[-1]["text"], question, prompt)


async def _score(runtime: JudgeRuntime, answer: _Answer) -> ScoredAnswer | None:
    """None where the answer's tokens cannot be told from the prompt's."""
    try:
        calls = [
            Call((*prompt, {"role": "assistant", "content": answer.text}), 0)
            for prompt in (answer.first, answer.later)
        ]
        replies = await asyncio.gather(*map(runtime.complete, calls))
    except JudgeUnavailable as error:
        raise ValueError(f"the endpoint refuses prompt_logprobs: {error.cause}") from None
    first, later = (_of_the_answer(reply, answer.text) for reply in replies)
    if first is None or later is None or len(first) != len(later):
        return None
    return ScoredAnswer(problem_key(answer.episode), first, later)


def _of_the_answer(reply: Reply, text: str) -> tuple[float, ...] | None:
    """Log-probs of the tokens at the prompt's end that spell `text`; None if there are none
    such.
    """
    if not isinstance(reply, ScoredReply):
        raise ValueError(
            "the endpoint does not offer prompt_logprobs in chat completions (vLLM does)"
        )
    # from the end: the answer is last, whatever the template writes before it
    spelled, text = "", text.strip()
    for k in range(len(reply.prompt) - 1, -1, -1):
        spelled = reply.prompt[k][0] + spelled
        if len(spelled.strip()) >= len(text):
            values = tuple(value for _, value in reply.prompt[k:])
            return values if spelled.strip() == text else None
    return None
