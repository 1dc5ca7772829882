"""Validation beyond verl's averages: the metrics of training, and episodes in the logger's table.

verl hands on from a validation episode only its `reward_extra_info`. Numbers in it are averaged;
texts are left alone, so the facts travel as a text.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rltf_verl.adapters.metrics.episodes import episode_metrics, lost_share
from rltf_verl.adapters.queue.columns import FACTS, episode_facts
from rltf_verl.runlog.record import turn_record
from rltf_verl.runlog.turns import verdict
from rltf_verl.types import Episode

EPISODE = "rltf_session"

OF_FIRST_ANSWERS = {
    "rltf/session/total",
    "rltf/grader/error_share",
    "rltf/grader/ungraded_share",
    *(f"rltf/turn_1/{name}" for name in ("share", "acc", "format", "tokens", "truncated")),
}


def averaged_info(episode: Episode, horizon: int) -> dict[str, Any]:
    """`reward_extra_info` of an episode, in training too: what verl's validation averages.

    `acc` is the **first** turn's, so `val-core/<source>/acc/mean@n` is what the policy can do
    without feedback. `acc_turn_k` (k ≥ 2) is whether the answer after k turns is right: an episode
    that ended earlier keeps its last answer.
    """
    correct = [float(turn.grade.correct) for turn in episode.turns]
    first = episode.turns[0]
    info: dict[str, Any] = {
        "acc": correct[0],
        "format_ok": float(
            first.grade.format_ok and first.attempt.ended and first.grade.error is None
        ),
    }
    for k in range(1, horizon):
        # An episode that ended earlier keeps its last answer.
        info[f"acc_turn_{k + 1}"] = correct[min(k, len(correct) - 1)]
    return info


def unaveraged_info(episode: Episode, horizon: int, question: str | None) -> dict[str, str]:
    """`reward_extra_info` of a validation episode that verl does not average.

    Args:
        episode: what was played.
        horizon: most turns of an episode.
        question: last message of the first prompt, if the episode may be shown in the logger's
            table.
    """
    info = {FACTS: json.dumps(episode_facts(episode, horizon).tolist())}
    return (
        info
        if question is None
        else info | {EPISODE: json.dumps([question, episode_text(episode)])}
    )


def validation_metrics(
    sources: Sequence[str], facts: Sequence[str | None], horizon: int
) -> dict[str, float]:
    """`rltf_val/<data source>/…`: the metrics of `episode_metrics`, with the same names behind the
    source.

    Args:
        sources: data source of each episode.
        facts: what `unaveraged_info` holds of each; None for one of another agent loop.
        horizon: most turns of an episode, `rltf.episode.horizon`. Where fewer were to be played,
            only numbers that say the same of both kinds of validation are reported: those of first
            answers.
    """
    by_source: dict[str, list[Any]] = defaultdict(list)
    for source, text in zip(sources, facts, strict=True):
        if text is not None:
            by_source[source].append(json.loads(text))
    metrics = {}
    for source, tables in by_source.items():
        table = torch.tensor(tables)
        named = episode_metrics(table, horizon)
        if table.shape[1] < horizon:
            # Later turns were not to be played: their numbers would only tell the setting.
            named = {name: named[name] for name in named.keys() & OF_FIRST_ANSWERS}
        for name, value in named.items():
            metrics[f"rltf_val/{source}/{name.removeprefix('rltf/')}"] = value
    return metrics


def first_answers_only(facts: Sequence[str | None], horizon: int) -> bool:
    """True if a validation was to play fewer turns than `horizon` (`validation_metrics`)."""
    return any(text is not None and len(json.loads(text)) < horizon for text in facts)


def validation_lost_shares(
    sources: Sequence[str], expected: Mapping[tuple[str, str], int]
) -> dict[str, float]:
    """`rltf_val/<data source>/session/lost_share`.

    Args:
        sources: data source of each episode that came back.
        expected: (data source, uid) -> episodes that were to be played.
    """
    num, asked = Counter(sources), Counter[str]()
    for (source, _), n in expected.items():
        asked[source] += n
    return {
        f"rltf_val/{s}/session/lost_share": lost_share(num[s], n) for s, n in asked.items() if n
    }


def episode_text(episode: Episode) -> str:
    """An episode as one text: attempts with their verdicts, feedback between them."""
    records = [turn_record(turn) for turn in episode.turns]
    parts = []
    for k, turn in enumerate(records, 1):
        parts.append(f"[attempt {k} {verdict(turn)}]\n{turn['text']}")
        if turn["feedback"]:
            parts.append(
                f"[feedback of {turn['feedback']['provider']}]\n{turn['feedback']['text']}"
            )
    return "\n\n".join(parts)


def sampled_episodes(infos: Mapping[str, Sequence[Any]], num: int) -> list[tuple[str, str, float]]:
    """(question, episode, first turn right) of `num` episodes, the same problems at every
    validation (as verl does).

    Args:
        infos: `reward_extra_info` of all episodes, as columns.
        num: how many.
    """
    shown = zip(infos[EPISODE], infos["acc"], strict=True)
    rows = sorted((*json.loads(text), acc) for text, acc in shown if text is not None)
    # verl sorts by the prompt and shuffles with this seed.
    order = np.random.RandomState(42).permutation(len(rows))
    return [rows[i] for i in order[:num]]
