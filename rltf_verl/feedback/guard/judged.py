"""An additional look at feedback in which the rules find no leak: a language model reads it beside
the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.judge_prompt import as_text
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.parsing import parse_reply
from rltf_verl.judge.wire import Call, JudgeUnavailable
from rltf_verl.prompts import render
from rltf_verl.prompts.quote import defused, fence_around

BLOCK = "rltf.feedback.guard.judge"


class JudgedLeak:
    """Asks a model whether a text gives the answer away.

    Args:
        options: `endpoint`, `limits`, `price`, `cache_dir`, as of the provider `judge`.

    Raises:
        ValueError: a bad option; names the config key.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.judge = Judge(options, BLOCK)
        self.judges = (self.judge,)

    async def __call__(self, request: FeedbackRequest, text: str) -> bool:
        """Whether the model reports a leak.

        Raises:
            FeedbackUnavailable: after two failed verdicts; the text is withheld.
        """
        verdict = ""
        for seed in (request.seed, request.seed + 1):
            try:
                reply = await self.judge.complete(Call(leak_messages(request, text), seed))
            except JudgeUnavailable as error:
                raise FeedbackUnavailable("guard", error.cause) from None
            verdict = parse_reply(
                reply.text, marker="Verdict:", words=20, complete=reply.complete
            ).text
            if word := re.match(r"\W*(yes|no)\b", verdict, re.IGNORECASE):
                return word[1].lower() == "yes"
            self.judge.note("no_verdict")
        raise FeedbackUnavailable(
            "guard", f"{BLOCK}: no verdict in the reply, twice: {verdict[:80]!r}"
        )


def leak_messages(request: FeedbackRequest, text: str) -> tuple[dict[str, str], ...]:
    """What the model is sent."""
    shown = {
        "question": defused(as_text(request.messages)),
        "reference": defused(request.problem.reference),
        "text": defused(text),
    }
    prompt = render("guard/leak", **shown, fence=fence_around([*shown.values()]))
    return ({"role": "user", "content": prompt},)
