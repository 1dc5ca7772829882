"""RLTF-FM, the policy learns to predict the feedback, and ECHO, observations:
`rltf.feedback_modeling`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from rltf_verl.algos.episodes import is_revised
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import FeedbackModelingConfig
from rltf_verl.episode.classes import classes_of
from rltf_verl.episode.failure_log import log_once
from rltf_verl.episode.mentions import touching
from rltf_verl.episode.rows import spans_of, whole_row
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.feedback.sentences import INCORRECT
from rltf_verl.findings import Finding
from rltf_verl.kinds import shown
from rltf_verl.objectives.base import Objective
from rltf_verl.objectives.user_code import OwnCodeError, dry_run, naming_errors, own_function
from rltf_verl.policy import Policy
from rltf_verl.prompts import require_template, template_of
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import shown_of
from rltf_verl.types import CONTEXT, Attempt, Episode, Feedback, Message, Role, Row

FILTER = "rltf.feedback_modeling.filter"


class FeedbackModeling(Objective[FeedbackModelingConfig]):
    """Cross-entropy on the feedback, in separate rows or inside the attempt row, and on
    observations.
    """

    Settings = FeedbackModelingConfig

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """(critic prompt with y_k, f_k) for every feedback that led to another turn (paper section
        4), or on the only one; none in the form `inline`.

        Left out: what the policy wrote itself, which it need not learn to predict, and the fixed
        sentence of `on_error`.
        """
        if not self.settings.makes_rows:
            return []
        rows, template = [], template_of("critic", self.settings.critic)
        for k, turn in enumerate(episode.turns):
            # With a horizon of 1 the only feedback leads nowhere, and is all that there is to
            # predict.
            leads_on = turn.stop is None or self.config.episode.horizon == 1
            if not leads_on or turn.feedback is None or not _is_modelled(turn.feedback):
                continue
            attempt = shown_of(turn.attempt.text, self.config.episode.quote)
            prompt = await fitted_prompt(
                policy, messages, template, attempt=attempt, unthinking=True
            )
            if prompt.ids is not None:
                text = turn.feedback.text
                ids = await policy.encode_answer(text)
                unsampled = Attempt(prompt.ids, ids, (0.0,) * len(ids), text, ended=True)
                row = whole_row(Role.FEEDBACK_MODELING, unsampled, prompt.ids, k, turn.reward)
                rows.append(self._apply_filter(policy, row))
        return [row for row in rows if Role.FEEDBACK_MODELING in row.role]

    def with_roles(self, policy: Policy, row: Row, episode: Episode) -> Row:
        """See `with_feedback`, of the form `inline`, and `with_observations`."""
        if self.settings.predicts_feedback and self.settings.form == "inline":
            row = with_feedback(row, episode)
        if "observation" in self.settings.classes:
            row = with_observations(policy, row, episode)
        return self._apply_filter(policy, row)

    def _apply_filter(self, policy: Policy, row: Row) -> Row:
        """The row without the predicted tokens that `filter` rejects."""
        if self.settings.filter is None:
            return row
        role = list(row.role)
        for start, end in chain.from_iterable(spans_of(row, Role.FEEDBACK_MODELING).values()):
            pieces = policy.pieces(row.response_ids[start:end])
            for i, kept in enumerate(self._passes(pieces), start):
                role[i] = role[i] if kept else CONTEXT
        return replace(row, role=tuple(role))

    def _passes(self, pieces: Sequence[str]) -> list[bool]:
        text = "".join(pieces)
        try:
            return touching(pieces, self._parts(text))
        except OwnCodeError as error:  # it must not cost the episode
            log_once("no token of a feedback is predicted", f"{FILTER} of {text[:80]!r}", error)
            return [False] * len(pieces)

    def _parts(self, text: str) -> list[tuple[int, int]]:
        """The (start, end) of each part of a feedback that `filter` keeps. Raises OwnCodeError."""
        where = self.settings.filter or ""
        function, place = own_function(FILTER, where), f"{FILTER}={where}"
        with naming_errors(place, function):
            parts = function(text)
        try:
            return [(int(start), int(end)) for start, end in parts]
        except (TypeError, ValueError) as error:
            fix = "return the (start, end) of each part"
            raise OwnCodeError(f"{place} returned {shown(parts)}; {fix}") from error

    def refusals(
        self, setting: Callable[[str], Any], provider: FeedbackProvider
    ) -> Iterator[Finding]:
        """There must be something to predict, and a prompt to predict it at."""
        require_template("rltf.feedback_modeling.critic", "critic", self.settings.critic)
        if self.settings.filter is not None:
            yield from dry_run(lambda: self._parts(f"{INCORRECT} 1 is not 2."))
        if self.settings.predicts_feedback and (provider.constant or provider.self_written):
            yield Finding(
                "rltf.feedback_modeling.weight",
                self.settings.weight,
                f"provider {self.config.feedback.provider.name} always says the same or is the"
                " policy itself, there is nothing to predict",
                "choose one that says what is wrong, or set the weight to 0",
            )

    def metrics(
        self, batch: RowBatch, targets: RowTargets, place: torch.Tensor
    ) -> dict[str, float]:
        """Perplexity of what is predicted under the policy."""
        return {"perplexity": math.exp(-float(batch.old_log_probs[place].float().mean()))}

    def batch_metrics(self, batch: RowBatch) -> dict[str, float]:
        """The share of revised attempts of which nothing is predicted: the feedback's row does not
        fit the prompt length, `filter` keeps nothing, or it is the policy's own or the fixed
        sentence.
        """
        # [S, M] both: turns that led to another, and turns of which some token is predicted.
        revised = is_revised(batch.episodes)
        tokens = batch.tokens(self.role)
        trains = torch.zeros_like(revised)
        trains[batch.episode[tokens].long(), batch.turn[tokens].long()] = True
        if not (self.settings.predicts_feedback and bool(revised.any())):
            return {}
        return {"untrained_share": float((~trains)[revised].float().mean())}


def with_feedback(row: Row, episode: Episode) -> Row:
    """An attempt row whose context between two turns trains where it is feedback."""
    role = list(row.role)
    start = len(row.prompt_ids)
    for i, turn in enumerate(row.turn):
        feedback = episode.turns[turn].feedback
        span = feedback.span if feedback is not None and _is_modelled(feedback) else None
        # A span counts from the start of the prompt, `i` from the start of the response.
        if role[i] == CONTEXT and span is not None and span[0] <= start + i < span[1]:
            role[i] = int(Role.FEEDBACK_MODELING)
    return replace(row, role=tuple(role))


def with_observations(policy: Policy, row: Row, episode: Episode) -> Row:
    """An attempt row whose observations train."""
    classes = zip(row.role, classes_of(policy, row, episode), strict=True)
    role = (int(Role.FEEDBACK_MODELING) if kind == "observation" else r for r, kind in classes)
    return replace(row, role=tuple(role))


def _is_modelled(feedback: Feedback) -> bool:
    """It is neither the policy's own nor the fixed sentence of `on_error`."""
    return feedback.attempt is None and not feedback.fallback
