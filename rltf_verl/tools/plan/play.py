"""Episodes of a plan, played by the run's own code: wrong answers, then a right one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from rltf_verl.adapters.startup.scripted_policy import ScriptedVerlPolicy
from rltf_verl.config import RLTFConfig
from rltf_verl.data.questions import QuestionRow
from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import bounded, grade
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.acting import first_messages
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, SIBLING, RecordingGateway
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.episode.seeds import place_of
from rltf_verl.feedback.group import ENDED, Cohort, Group
from rltf_verl.feedback.judge_prompt import JUDGED, longest_feedback
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.prompts.lengths import Lengths, lengths_of
from rltf_verl.tools.feedback.attempts import (
    FORMS,
    NO_IDEA,
    changed_at,
    forms_asked,
    right_texts,
    written,
)
from rltf_verl.types import CONTEXT, Action, Episode, Grade, Problem, Row

DONE = "I am done."
"""The answer after the last action of a trajectory."""
SECOND = "(the second answer)"
"""The policy's, after a recorded one."""
EXAMPLES = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}, "null": None}
"""JSON type -> an argument of it; any other is a text."""

MOST_TRIED = 20
"""Other problems whose answers are tried as a wrong one."""


@dataclass(frozen=True)
class GradedExample:
    """An answer with its grade."""

    text: str
    form: str
    grade: Grade


async def tried_answer(
    env: Env, case: QuestionRow, text: str, form: str, dry_run: DryRun
) -> GradedExample:
    """Raises OutOfTimeError."""
    with dry_run.timed():
        return GradedExample(text, form, await grade(env, case.problem, text))


async def right_answer(
    env: Env, case: QuestionRow, dry_run: DryRun
) -> tuple[GradedExample | None, list[GradedExample]]:
    """The first of the reference's forms that is graded right, those that the prompt asks for
    first; and all that were tried before. Raises OutOfTimeError.
    """
    tried: list[GradedExample] = []
    for form, text in right_texts(env, case.problem, case.messages):
        answer = await tried_answer(env, case, text, form, dry_run)
        if answer.grade.correct:
            return answer, tried
        tried.append(answer)
    return None, tried


async def wrong_answer(
    env: Env,
    case: QuestionRow,
    others: Sequence[QuestionRow],
    right: GradedExample | None,
    dry_run: DryRun,
) -> GradedExample:
    """An answer in the form that is read here, if it is wrong here: the reference with another
    character, or another problem's reference; else a text without an answer. Raises OutOfTimeError.
    """
    forms = [*([right.form] if right is not None else []), *forms_asked(case.messages), "\\boxed{}"]
    form = next(form for form in forms if form in FORMS)
    own, best = case.problem.reference, None
    like = sorted((o.problem.reference for o in others), key=lambda r: abs(len(r) - len(own)))
    changed = [text for text, _ in changed_at(own)]
    # By turns from its start and its end, so that not all problems are answered wrong in one way.
    for reference in [*changed[:: 2 * (case.problem.index % 2) - 1], *like[:MOST_TRIED]]:
        if not reference.strip() or reference == own:
            continue
        answer = await tried_answer(env, case, written(form, reference), form, dry_run)
        if answer.grade.correct or answer.grade.error is not None:
            continue
        if answer.grade.format_ok:
            return answer
        # wrong only because the grader finds no answer in it: good if nothing else is
        best = best or answer
    return best or await tried_answer(env, case, NO_IDEA, "no answer", dry_run)


def actions_of(env: Env, problem: Problem) -> tuple[list[str], list[str]]:
    """The answers of a first and of a last attempt: the environment's solution without its last
    step, or a call of the first tool; and all of the solution, empty without one.
    """
    right = list[Action]()
    with suppress(Exception):  # `rltf env check` reports it
        right = list(bounded(env).solution(problem))
    wrong = right[:-1] or [_example(tool["function"]) for tool in env.tools[:1]]
    return [*map(_action_text, wrong), DONE], [*map(_action_text, right), DONE] if right else []


def _action_text(action: Action) -> str:
    call = json.dumps(
        {"name": action.tool, "arguments": dict(action.arguments)}, ensure_ascii=False
    )
    return action.text if action.tool is None else f"<tool_call>\n{call}\n</tool_call>"


def _example(function: Mapping[str, Any]) -> Action:
    """A call with arguments as the tool's schema has them.

    >>> whats = {"how": {"enum": ["far", "near"]}, "often": {"type": "integer"}, "what": {}}
    >>> _example({"name": "go", "parameters": {"properties": whats}}).arguments
    {'how': 'far', 'often': 1, 'what': 'text'}
    """
    schemas = function.get("parameters", {}).get("properties", {})
    values = (
        (n, s.get("enum", [EXAMPLES.get(str(s.get("type")), "text")])) for n, s in schemas.items()
    )
    return Action("", function["name"], {name: value for name, (value, *_) in values})


@dataclass(frozen=True)
class PlannedEpisode:
    """A problem's episode."""

    case: QuestionRow
    right: GradedExample | None
    """The reference as an answer that is graded right."""
    tried: Sequence[GradedExample]
    """Forms of it that are graded wrong, those that the prompt asks for first."""
    episode: Episode
    rows: Sequence[Row]
    critics: Sequence[tuple[int, ...]]
    """Prompts at which the policy itself writes feedback."""
    calls: Sequence[tuple[JudgeSettings, str]]
    """The settings of each judge that is asked, and the prompt that it would be sent."""


async def play_problem(
    parts: Parts,
    method: Method,
    asked: Sequence[RecordingGateway],
    policy: ScriptedVerlPolicy,
    case: QuestionRow,
    others: Sequence[QuestionRow],
    attempt: str | None,
    dry_run: DryRun,
) -> PlannedEpisode:
    """The episode of one problem.

    Args:
        parts: as of `with_placeholders`.
        method: the objectives.
        asked: the judges among them.
        policy: gives the answers that it is given.
        case: the problem.
        others: those whose answers are tried as wrong ones.
        attempt: the first answer; None: a wrong one.
        dry_run: counts the time for grades.

    Raises:
        OutOfTimeError: the grader is slow.
    """
    env, messages = parts.env, list(case.messages)
    graded = not (env.acts or env.has_record)
    right, tried = await right_answer(parts.env, case, dry_run) if graded else (None, [])
    if env.has_record:
        first = last = [SECOND]
    elif env.acts:
        messages = await first_messages(env, case.problem, messages)
        first, last = actions_of(env, case.problem)
    else:
        wrong = None if attempt else await wrong_answer(parts.env, case, others, right, dry_run)
        first, last = [wrong.text] if wrong else [], [right.text] if right else []
    first = first if attempt is None else [attempt, DONE]
    for judge in asked:
        judge.calls.clear()  # those of the grades above
    # A seed stands for its place in the episode, so that `policy.asked` tells whose a prompt was.
    seeds: dict[str, int] = {}
    policy.tell(_Script(seeds, parts.config, first, last or first))
    episode = await EpisodePlayer(
        parts,
        policy,
        case.problem,
        messages,
        session_id=0,
        validate=False,
        seed_of=lambda place: seeds.setdefault(place, len(seeds)),
        group=_sibling(parts.config, SIBLING if right is None else right.text),
    ).play()
    rows = await episode_rows(policy, messages, episode, method)
    asked_at = ((place, policy.asked[s]) for place, s in seeds.items() if s in policy.asked)
    critics = [prompt for place, prompt in asked_at if place.endswith("/feedback")]
    calls = []
    for judge in asked:
        for call in judge.calls:
            prompt = "\n\n".join(message["content"] for message in call.messages)
            calls.append((judge.settings, prompt))
    return PlannedEpisode(case, right, tried, episode, rows, critics, calls)


def _sibling(config: RLTFConfig, answer: str) -> Group | None:
    """Another episode that has failed and solved the problem, and another problem, where a teacher
    reads of them.
    """
    reads = "sibling" in config.teacher.sources or config.teacher.reads_other_problems
    if not (config.teaches and reads):
        return None
    cohort = Cohort([None, "another"], 1)
    cohort.offers["another", 0] = dict.fromkeys(
        config.teacher.sources, "(what a teacher reads of another problem)"
    )
    cohort.note_past(("another", 0), ENDED)
    group = Group(2, cohort=cohort)
    group.note_end(1)
    group.note_grade(1, 1, answer, correct=True)  # not by turn 1: feedback is wanted
    group.note_grade(1, 1, NO_IDEA, correct=False)
    return group


class _Script(dict[int, str]):
    """Seed -> text, by the seed's place (`seeds.place_of`). `first`, `last`: the answers of an
    attempt, one for each of its steps.
    """

    def __init__(
        self, seeds: dict[str, int], config: RLTFConfig, first: Sequence[str], last: Sequence[str]
    ) -> None:
        super().__init__()
        self._seeds, self._first, self._right = seeds, first, last
        self._last = place_of(config.episode.horizon - 1)

    def __missing__(self, seed: int) -> str:
        # `seed_of` numbers the places in the order in which the episode comes to them
        place = next(name for name, number in self._seeds.items() if number == seed)
        if place.endswith("/feedback"):
            return f"Critique: {CRITIQUE}"
        attempt, _, step = place.partition("/step")
        # with one turn the last is the first, which is to be wrong
        is_last = attempt == self._last != place_of(0)
        answers = self._right if is_last else self._first
        return answers[min(int(step or 0), len(answers) - 1)]


def parts_of_row(row: Row, method: Method) -> list[tuple[str, int, int]]:
    """(role, turn, tokens) of each chunk of a row that is trained."""
    names = method.role_names
    chunks = groupby(zip(row.role, row.turn, strict=True))
    return [
        (names[role], turn, len(list(tokens))) for (role, turn), tokens in chunks if role != CONTEXT
    ]


@dataclass(frozen=True)
class RunLengths:
    """Lengths of a run's problems."""

    first: Lengths
    """First prompts."""
    solutions: Lengths
    """The dataset's worked solutions, where it has them, else its reference answers; those above
    the limit leave an answer no room.
    """
    room: int | None
    """Tokens of an attempt that a typical second prompt has room for; None: no second prompt quotes
    one."""


async def measure_lengths(
    parts: Parts,
    policy: ScriptedVerlPolicy,
    cases: Sequence[QuestionRow],
    plays: Sequence[PlannedEpisode],
    answer: int,
) -> RunLengths:
    """The lengths of all cases.

    Args:
        parts: environment and configuration.
        policy: counts tokens.
        cases: the problems, at least one.
        plays: episodes of some of them.
        answer: `data.max_response_length`.
    """
    first = [len(await policy.encode(case.messages)) for case in cases]
    problems = [case.problem for case in cases]
    solutions = [policy.count(parts.env.worked_solution(p) or p.reference) for p in problems]
    return RunLengths(
        lengths_of(first, policy.prompt_budget),
        lengths_of(solutions, answer - 1),  # an answer ends with a token of its own
        _room(policy, parts, plays),
    )


def _room(policy: ScriptedVerlPolicy, parts: Parts, plays: Sequence[PlannedEpisode]) -> int | None:
    """By how the played second prompts would be without their attempt, and with the longest
    feedback that a judge may write.
    """
    if parts.config.episode.quote == "none" or parts.config.episode.context == "append":
        return None
    rooms = []
    words = parts.words_of_judge
    more = policy.count(longest_feedback(words)) - policy.count(JUDGED) if words else 0
    for play in plays:
        for turn in play.episode.turns[1:2]:
            attempt = play.episode.turns[0].attempt.text
            if attempt not in (turn.prompt or ""):
                return None
            without = len(turn.attempt.prompt_ids) - policy.count(attempt)
            judged = more if JUDGED in (turn.prompt or "") else 0
            rooms.append(policy.prompt_budget - without - judged)
    return max(0, int(median(rooms))) if rooms else None
