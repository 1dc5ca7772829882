"""What the teacher of an attempt reads (`rltf.teacher`): the conversation that the attempt answers,
with more in its last message.

Made after the episode has ended: reading a sibling's answer waits for other episodes, and none
waits for this step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from rltf_verl.config import SOURCES, TeacherConfig
from rltf_verl.envs.base import Env, HasWorkedSolution
from rltf_verl.envs.waiting import notes_text
from rltf_verl.episode.failure_log import log_once
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.rows import last_turns
from rltf_verl.episode.seeds import place_of
from rltf_verl.feedback.group import ENDED, Group
from rltf_verl.policy import Policy
from rltf_verl.prompts import render
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import quoted, shown_of
from rltf_verl.types import Episode, Message, Problem, TeacherPrompt, Turn


def known_beforehand(parts: Parts, problem: Problem) -> dict[str, str]:
    """Each thing that a teacher can read; empty what it does not read, or what only an episode
    brings.
    """
    texts, reads = dict.fromkeys(SOURCES, ""), parts.config.teacher.sources
    if "reference" in reads:
        texts["reference"] = reference_of(parts.env, problem)
    if "demonstration" in reads:
        texts["demonstration"] = problem.demonstration
    return texts


def reference_of(env: Env, problem: Problem) -> str:
    """The worked solution where the environment has one, else the reference answer."""
    solution = env.worked_solution(problem) if isinstance(env, HasWorkedSolution) else ""
    return solution if solution.strip() else problem.reference


async def with_teachers(
    parts: Parts,
    policy: Policy,
    episode: Episode,
    question: Sequence[Message],
    seed_of: Callable[[str], int],
    group: Group | None,
) -> Episode:
    """The episode, whose attempts have the prompts of their teachers.

    An attempt has none if there is nothing to be read, or if the prompt does not fit.

    Args:
        parts: environment and configuration.
        policy: encodes, and knows the budget.
        episode: a training episode, played to its end.
        question: the first prompt.
        seed_of: place in the episode -> seed; chooses among siblings.
        group: the other episodes of the problem.
    """
    config = parts.config.teacher
    chosen = _chosen(config, episode)
    if not chosen:
        return episode
    shared = known_beforehand(parts, episode.problem)
    if "sibling" in config.sources:
        shared["sibling"] = await _sibling(parts, episode, seed_of, group)
    turns = list(episode.turns)
    for k in chosen:
        feedback = turns[k].feedback if "feedback" in config.sources else None
        texts = {**shared, "feedback": "" if feedback is None else feedback.text}
        if not any(text.strip() for text in texts.values()):
            continue
        try:
            teacher = await _prompt(parts, policy, turns, k, question, texts)
            if teacher is not None and config.notes == "by_step":
                of_steps = await _prompts_of_steps(parts, policy, turns, k, question, texts)
                teacher = replace(teacher, of_steps=of_steps)
        except Exception as error:  # a text that no tokenizer takes must not cost the episode
            where = f"episode {episode.session_id} of problem {episode.problem.index}"
            log_once("no teacher's prompt could be made", where, error)
            continue
        turns[k] = replace(turns[k], teacher=teacher)
    return replace(episode, turns=tuple(turns))


def _chosen(config: TeacherConfig, episode: Episode) -> list[int]:
    """Turns whose attempts are to have a teacher."""
    turns = episode.turns
    of: dict[str, Collection[int]] = {
        "first": (0,),
        "last": set(last_turns(episode)),
        "all": range(len(turns)),
    }
    graded = (k for k in sorted(of[config.turns]) if turns[k].stop != "ungraded")
    return [k for k in graded if config.right or not turns[k].grade.correct]


async def _sibling(
    parts: Parts, episode: Episode, seed_of: Callable[[str], int], group: Group | None
) -> str:
    """Another episode's right answer, of whichever turn; empty without one."""
    if group is None:
        return ""
    wait_s = parts.config.feedback.ask_wait_s
    right = await group.solutions(episode.session_id, ENDED, wait_s)
    if not right:
        return ""
    chosen = right[seed_of(place_of(0, 0, "teacher")) % len(right)]
    return shown_of(chosen.text, parts.config.episode.quote)


async def _prompts_of_steps(
    parts: Parts,
    policy: Policy,
    turns: Sequence[Turn],
    k: int,
    question: Sequence[Message],
    texts: dict[str, str],
) -> tuple[tuple[int, ...] | None, ...]:
    """`TeacherPrompt.of_steps` of a turn; empty where no note speaks of a step."""
    feedback, prompts = turns[k].feedback, []
    notes = () if feedback is None else feedback.notes
    for step in range(len(turns[k].attempt.spans)):
        prompt = None
        if any(note.step == step for note in notes):
            read = [note for note in notes if note.step in (None, step)]
            own = {**texts, "feedback": notes_text(read)}
            prompt = await _prompt(parts, policy, turns, k, question, own)
        prompts.append(None if prompt is None else prompt.ids)
    return tuple(prompts) if any(prompts) else ()


async def _prompt(
    parts: Parts,
    policy: Policy,
    turns: Sequence[Turn],
    k: int,
    question: Sequence[Message],
    texts: dict[str, str],
) -> TeacherPrompt | None:
    """The student's conversation, its last message through the template; None if it is too long.

    In an appended context the tokens before that message are those that the student had.
    """
    turn, episode = turns[k], parts.config.episode
    template = parts.config.teacher.prompt or ""
    asked = question[-1]["content"] if turn.prompt is None else turn.prompt
    attempt = shown_of(turn.attempt.text, episode.quote)
    if turn.parent is None or episode.context == "fresh":
        messages = [*question[:-1], {**question[-1], "content": asked}]
        fitted = await fitted_prompt(policy, messages, template, attempt=attempt, fields=texts)
        return None if fitted.ids is None else TeacherPrompt(fitted.ids, fitted.text)
    before = turns[turn.parent].attempt
    quotes = {name: quoted(policy, text) for name, text in texts.items()}
    text = render(template, question=asked, attempt=quoted(policy, attempt), **quotes)
    ids = await policy.extend(
        before.prompt_ids + before.response_ids,
        _conversation(turns, turn.parent, question),
        {"role": "user", "content": text},
    )
    return TeacherPrompt(ids, text) if len(ids) <= policy.prompt_budget else None


def _conversation(turns: Sequence[Turn], k: int, question: Sequence[Message]) -> list[Message]:
    """An appended context up to the attempt of turn k, that attempt included."""
    turn = turns[k]
    answer = {"role": "assistant", "content": turn.attempt.text}
    if turn.parent is None:
        return [*question, answer]
    asked = {"role": "user", "content": turn.prompt or ""}
    return [*_conversation(turns, turn.parent, question), asked, answer]
