"""Rows of trajectories: token classes, and the spans that a teacher scores."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import CONTEXT, Episode, Role, Row, TeacherPrompt

from ..support.acting_fakes import ActorEnv, ScriptedActor, call
from ..support.episode_fakes import QUESTION, Remark, parts_with, play_parts

THOUGHT = "<think>so</think>"
ANSWERS = [f"{THOUGHT}I do {call('ok')}.", call("lose"), f"{THOUGHT}{call('win')}"]
BASE = {"env": {"name": "binary_matrix"}, "feedback": {"provider": "verifier"}}


def rows_of(context: str = "fresh", answers: Sequence[str] = ANSWERS, **blocks: Any) -> list[Row]:
    """Rows of an episode of two attempts; the first has two steps and a teacher."""
    policy = ScriptedActor(answers)
    parts = parts_with(ActorEnv(), Remark(), context=context)

    async def work() -> list[Row]:
        episode: Episode = await play_parts(parts, policy)
        first = replace(episode.turns[0], teacher=TeacherPrompt((7, 7), "told", against=((8,),)))
        episode = replace(episode, turns=(first, *episode.turns[1:]))
        config = RLTFConfig.from_mapping({**BASE, "distill": {"weight": 1.0}, **blocks})
        return await episode_rows(policy, QUESTION, episode, Method(config))

    return asyncio.run(work())


def texts(row: Row, role: int) -> str:
    """What of the row has the role; `|` between stretches."""
    shown = "".join(
        chr(i) if r == role else "|" for i, r in zip(row.response_ids, row.role, strict=True)
    )
    return "|".join(filter(None, shown.replace("\0", "").split("|")))


OK, LOSE, WIN = call("ok"), call("lose"), call("win")
CLASSES = {
    "think": ("<think>so</think>", "<think>so</think>"),
    "action": (f"{OK}|{LOSE}", WIN),
    "format": ("I do |.", ""),
    ("think", "action"): (f"{THOUGHT}|{OK}|{LOSE}", f"{THOUGHT}{WIN}"),
    None: (f"{ANSWERS[0]}|{LOSE}", ANSWERS[2]),
}


@pytest.mark.parametrize("context", ["fresh", "append"])
@pytest.mark.parametrize("classes", CLASSES)
def test_an_objective_trains_the_classes_that_are_chosen(context: str, classes: Any) -> None:
    first, second = CLASSES[classes]
    rows = rows_of(context, token_classes=classes)
    attempts = "|".join(filter(None, (texts(row, Role.ATTEMPT) for row in rows)))
    assert attempts == "|".join(filter(None, (first, second)))
    shown = [texts(row, Role.DISTILL) for row in rows if Role.DISTILL in row.role]
    assert [text for text in shown if text] == ([second] if second else [])


@pytest.mark.parametrize(("phrase", "kept"), [("win!", True), ("ok!", True), ("lose", False)])
def test_an_observation_is_no_mention(phrase: str, kept: bool) -> None:
    """`ok!` is what the environment answered, `lose` what the second attempt called."""
    answers = [call("ok"), "no", call("ok"), call("lose")]
    rows = rows_of(answers=answers, mentions={"action": "drop", "phrases": [phrase]})
    assert any(Role.DISTILL in row.role for row in rows) == kept


@pytest.mark.parametrize("context", ["fresh", "append"])
@pytest.mark.parametrize("classes", [None, "action"])
def test_a_teacher_reads_the_attempt_before_each_stretch_that_it_scores(
    context: str, classes: Any
) -> None:
    rows = rows_of(context, logit_distill={"weight": 1.0}, token_classes=classes)
    (row,) = [row for row in rows if row.teachers]
    attempt = "".join(map(chr, row.response_ids))
    begin = attempt.index(THOUGHT)
    stretches = []
    for span in row.teachers:
        before = row.response_ids[begin : span.start]
        assert (span.prompt_ids, span.against) == ((7, 7, *before), ((8, *before),))
        assert CONTEXT not in row.role[span.start : span.end]
        stretches.append(attempt[span.start : span.end].strip("\0"))
    assert stretches == ([OK, LOSE] if classes else [ANSWERS[0], LOSE])
