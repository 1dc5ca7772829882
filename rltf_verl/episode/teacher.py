"""Prompt of an attempt's teacher (`rltf.teacher`): the conversation that the attempt answers, with
more in its last message.

Made after the episode has ended: reading a sibling's answer waits for other episodes, and none
waits for this step.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from rltf_verl.config import SOURCES, TeacherConfig
from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import bounded, notes_text
from rltf_verl.episode.failure_log import log_once
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.seeds import place_of
from rltf_verl.feedback.group import ENDED, Group, Solution
from rltf_verl.policy import Policy
from rltf_verl.prompts import render
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import quoted, shown_of
from rltf_verl.types import Episode, Message, Problem, TeacherPrompt, Turn


def texts_known_before(parts: Parts, problem: Problem) -> dict[str, str]:
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
    try:
        solution = bounded(env).worked_solution(problem)
        return solution if solution.strip() else problem.reference
    except Exception as error:  # user code must not cost the episode
        log_once("a teacher reads the answer", f"the solution of problem {problem.index}", error)
        return problem.reference


def offer_reading(
    parts: Parts, problem: Problem, session_id: int, turns: Sequence[Turn], group: Group
) -> None:
    """Let the teachers of other problems read what a teacher of this one would, where they do."""
    teacher = parts.config.teacher
    if group.cohort is None or not teacher.reads_other_problems:
        return
    right = next((turn.attempt.text for turn in turns if turn.grade.correct), "")
    texts = {
        **texts_known_before(parts, problem),
        "sibling": shown_of(right, parts.config.episode.quote),
        "feedback": next((turn.feedback.text for turn in turns if turn.feedback), ""),
    }
    group.cohort.offers[group.key, session_id] = {name: texts[name] for name in teacher.sources}


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
    chosen = _taught_turns(config, episode)
    if not chosen:
        return episode
    shared = texts_known_before(parts, episode.problem)
    if "sibling" in config.sources:
        shared["sibling"] = await _sibling(parts, episode, seed_of, group)
    others = await _others(parts, episode, group)
    turns = list(episode.turns)
    for k in chosen:
        feedback = turns[k].feedback if "feedback" in config.sources else None
        texts = {**shared, "feedback": "" if feedback is None else feedback.text}
        seed = seed_of(place_of(k, "against"))
        contrast = _contrast(config, texts, others, random.Random(seed))
        if config.shuffled:
            texts = contrast[0] if contrast else {}
        if not any(text.strip() for text in texts.values()):
            continue
        prompt = partial(_prompt, parts, policy, turns, k)
        try:
            teacher = await _with_contrast(config, prompt, question, texts, contrast)
            if teacher is not None and config.notes == "by_step" and not config.shuffled:
                of_steps = await _prompts_of_steps(prompt, turns[k], question, texts)
                teacher = replace(teacher, of_steps=of_steps)
        except Exception as error:  # a text that no tokenizer takes must not cost the episode
            where = f"episode {episode.session_id} of problem {episode.problem.index}"
            log_once("no teacher's prompt could be made", where, error)
            continue
        turns[k] = replace(turns[k], teacher=teacher)
    return replace(episode, turns=tuple(turns))


def _taught_turns(config: TeacherConfig, episode: Episode) -> list[int]:
    """Turns whose attempts are to have a teacher."""
    turns = episode.turns
    of: dict[str, Collection[int]] = {
        "first": (0,),
        "last": (len(turns) - 1,),
        "all": range(len(turns)),
    }
    graded = (k for k in sorted(of[config.turns]) if turns[k].stop != "ungraded")
    return [k for k in graded if config.right or not turns[k].grade.correct]


async def _sibling(
    parts: Parts, episode: Episode, seed_of: Callable[[str], int], group: Group | None
) -> str:
    """A right answer of another episode, from any turn; empty without one."""
    right = await _siblings(parts, episode, group, correct=True)
    if not right:
        return ""
    chosen = right[seed_of(place_of(0, "teacher")) % len(right)]
    return shown_of(chosen.text, parts.config.episode.quote)


async def _prompts_of_steps(
    prompt: Callable[..., Awaitable[TeacherPrompt | None]],
    turn: Turn,
    question: Sequence[Message],
    texts: Mapping[str, str],
) -> tuple[tuple[int, ...] | None, ...]:
    """`TeacherPrompt.of_steps` of a turn; empty where no note speaks of a step."""
    notes, prompts = () if turn.feedback is None else turn.feedback.notes, []
    for step in range(len(turn.attempt.spans)):
        teacher = None
        if any(note.step == step for note in notes):
            read = [note for note in notes if note.step in (None, step)]
            teacher = await prompt(question, {**texts, "feedback": notes_text(read)})
        prompts.append(None if teacher is None else teacher.ids)
    return tuple(prompts) if any(prompts) else ()


async def _siblings(
    parts: Parts, episode: Episode, group: Group | None, *, correct: bool
) -> list[Solution]:
    """Other episodes' right or wrong attempts. None of a contrast is the episode's own text: an
    answer that is its own hint is likely whatever it says.
    """
    if group is None:
        return []
    attempts = await group.solutions(episode.session_id, ENDED, correct=correct)
    if parts.config.teacher.against.name is None:
        return attempts
    own = {turn.attempt.text for turn in episode.turns}
    return [attempt for attempt in attempts if attempt.text not in own]


async def _others(parts: Parts, episode: Episode, group: Group | None) -> list[Mapping[str, str]]:
    """Different texts that can replace the teacher's, by source."""
    config, texts = parts.config.teacher, list[Mapping[str, str]]()
    if config.against.name == "wrong_sibling":
        wrong = await _siblings(parts, episode, group, correct=False)
        texts = [{"sibling": shown_of(each.text, parts.config.episode.quote)} for each in wrong]
    elif config.reads_other_problems and group is not None and group.cohort is not None:
        texts = await group.cohort.other_offers(group.key)
    # Equal texts are one: two copies would count twice in the contrast.
    return list({tuple(each.items()): each for each in texts}.values())


def _contrast(
    config: TeacherConfig,
    texts: dict[str, str],
    others: Sequence[Mapping[str, str]],
    rng: random.Random,
) -> list[dict[str, str]]:
    """The texts with others in their place, at most `against.n` times. A text that is there is
    never replaced by one that is not, so the template stays the same.
    """
    if config.against.name == "reference_only":
        # The same texts; `_with_contrast` takes the question away from them.
        return [texts]
    replaced = [name for name, text in texts.items() if text.strip()]
    if config.against.name == "wrong_sibling":
        replaced = [name for name in replaced if name == "sibling"]
    fit = [
        each
        for each in others
        if all(each[name].strip() for name in replaced)
        # Equal texts would contrast the teacher with itself.
        and any(each[name] != texts[name] for name in replaced)
    ]
    chosen = rng.sample(fit, min(len(fit), config.against.n))
    return [{**texts, **{name: other[name] for name in replaced}} for other in chosen]


async def _with_contrast(
    config: TeacherConfig,
    prompt: Callable[..., Awaitable[TeacherPrompt | None]],
    question: Sequence[Message],
    texts: Mapping[str, str],
    contrast: Sequence[Mapping[str, str]],
) -> TeacherPrompt | None:
    """The teacher's prompt with those of its contrast; None where a part is missing."""
    teacher = await prompt(question, texts)
    if teacher is None or config.against.name is None:
        return teacher
    if config.against.name == "reference_only":
        question = [*question[:-1], {**question[-1], "content": ""}]
    voices = [await prompt(question, voice) for voice in contrast]
    against = tuple(voice.ids for voice in voices if voice)
    return replace(teacher, against=against) if against else None


async def _prompt(
    parts: Parts,
    policy: Policy,
    turns: Sequence[Turn],
    k: int,
    question: Sequence[Message],
    texts: Mapping[str, str],
) -> TeacherPrompt | None:
    """The student's conversation, its last message through the template; None if it is too long.

    In an appended context the tokens before that message are those that the student had. In a retry
    from a step the steps before it follow the question.
    """
    turn, episode = turns[k], parts.config.episode
    template, steps = parts.config.teacher.prompt or "", turn.attempt.prefix_ids
    # After a retry the teacher reads the first question: the steps are between.
    asked = question[-1]["content"] if turn.prompt is None or steps else turn.prompt
    attempt = shown_of(turn.attempt.text, episode.quote)
    if k == 0 or episode.context != "append" or steps:
        messages = [*question[:-1], {**question[-1], "content": asked}]
        fitted = await fitted_prompt(policy, messages, template, attempt=attempt, fields=texts)
        if fitted.ids is None or len(fitted.ids) + len(steps) > policy.prompt_budget:
            return None
        return TeacherPrompt(fitted.ids + steps, fitted.text)
    before = turns[k - 1].attempt
    quotes = {name: quoted(policy, text) for name, text in texts.items()}
    text = render(template, question=asked, attempt=quoted(policy, attempt), **quotes)
    ids = await policy.extend(
        before.prompt_ids + before.response_ids,
        _conversation(turns, k - 1, question),
        {"role": "user", "content": text},
    )
    return TeacherPrompt(ids, text) if len(ids) <= policy.prompt_budget else None


def _conversation(turns: Sequence[Turn], k: int, question: Sequence[Message]) -> list[Message]:
    """An appended context up to the attempt of turn k, that attempt included."""
    turn = turns[k]
    answer = {"role": "assistant", "content": turn.attempt.text}
    if k == 0:
        return [*question, answer]
    asked = {"role": "user", "content": turn.prompt or ""}
    return [*_conversation(turns, k - 1, question), asked, answer]
