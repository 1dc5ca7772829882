"""Check that the model's chat template begins answers of student and teacher at the same place, and
how it treats thoughts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.rollout.chat_form import ANSWER, USER
from rltf_verl.adapters.startup.budget import REVISE, TEACHER, later_prompts
from rltf_verl.adapters.startup.model import is_elsewhere, load_model
from rltf_verl.data.questions import QuestionRow
from rltf_verl.envs.calls import tools_of
from rltf_verl.episode.parts import Parts
from rltf_verl.findings import Finding, Rule, findings
from rltf_verl.texts import THOUGHTS, THOUGHTS_END
from rltf_verl.types import Message

IDEA = "1414213"
"""Placeholder of thoughts; digits, which no template changes."""
_SOFT_SWITCH = re.compile(r"/(?:no_?)?think\b")
"""In a message; models that know it obey the last one."""


@dataclass(frozen=True)
class Thoughts:
    """A run's thoughts."""

    switch_ignored: bool
    """The template has no `enable_thinking`, which is set."""
    apart: Sequence[str]
    """Kinds of later prompts after which an answer begins elsewhere than after the question."""
    kept: bool
    """Rows of several answers keep thoughts that the template drops."""
    steps_kept: bool
    """So do rows of several steps."""
    quoted: bool
    """Quoted attempts hold thoughts, which the template does not put in `<think>…</think>`."""


ELSEWHERE = (
    "after this prompt the answer begins elsewhere than after the question (another header, or a"
    " switch /think or /no_think is lost)"
)

RULES: tuple[Rule[Thoughts], ...] = (
    Rule(
        "rltf.teacher.prompt",
        lambda t: TEACHER in t.apart,
        f"{ELSEWHERE}, so teacher and student score different tokens",
        "let it end as the question does; with rltf.teacher.against=reference_only put the switch"
        " into the system message",
    ),
    Rule(
        "rltf.episode.revise",
        lambda t: REVISE in t.apart,
        ELSEWHERE,
        "let it end as the question does",
        "warning",
    ),
    Rule(
        "data.apply_chat_template_kwargs.enable_thinking",
        lambda t: t.switch_ignored,
        "the model's chat template has no such switch",
        "leave it out, or set the template's own (gpt-oss: reasoning_effort)",
        "warning",
    ),
    Rule(
        "rltf.episode.context",
        lambda t: t.kept,
        "the chat template drops the thoughts of earlier answers, which an appended context keeps:"
        " a server would show the policy other conversations than it is trained on",
        "set it to fresh, or serve the model with a template that keeps them",
        "warning",
    ),
    Rule(
        "rltf.env.name",
        lambda t: t.steps_kept,
        "the chat template drops the thoughts of earlier steps, which a trajectory keeps: a server"
        " would show the policy other conversations than it is trained on",
        "serve the model with a template that keeps them",
        "warning",
    ),
    Rule(
        "rltf.episode.quote",
        lambda t: t.quoted,
        "the chat template does not put thoughts in <think>…</think>, so quoted attempts hold them",
        "set it to none, or to all if this is meant",
        "warning",
    ),
)


def thought_findings(
    config: DictConfig, parts: Parts, questions: Sequence[QuestionRow], tokenizer: Any
) -> Iterator[Finding]:
    """Faults of thoughts under the chat template; `budget` refuses one that cannot render."""
    episode, teaches = parts.config.episode, parts.config.teaches
    render = _render_of(config, tokenizer)
    several = episode.horizon > 1
    quotes = several or (teaches and "sibling" in parts.config.teacher.sources)
    try:
        dropped, unmarked = _of_template(render, USER)
        tools, steps_kept = tools_of(parts.env), False
        if parts.env.acts:
            observed = {**USER, "role": "tool"} if tools else USER
            steps_kept = _of_template(partial(render, tools=tools or None), observed)[0]
        thoughts = Thoughts(
            switch_ignored="enable_thinking" in render.keywords
            and render([USER], enable_thinking=True) == render([USER], enable_thinking=False),
            apart=_answers_start_elsewhere(parts, questions, render),
            kept=several and episode.context == "append" and dropped,
            steps_kept=steps_kept,
            quoted=quotes and episode.quote == "answer" and unmarked,
        )
    except Exception:  # templates raise what they like
        return
    yield from findings(RULES, thoughts, config)


def keeps_answers(config: DictConfig) -> bool:
    """True if the chat template of the model shows earlier answers as they were sampled, with their
    thoughts; False without a model that can be read here.
    """
    if is_elsewhere(str(config.actor_rollout_ref.model.path)):
        return False
    try:
        return not _of_template(_render_of(config, load_model(config).tokenizer), USER)[0]
    except Exception:  # templates raise what they like
        return False


def _render_of(config: DictConfig, tokenizer: Any) -> partial[str]:
    """The chat template with the run's settings: messages -> text."""
    settings: Any = OmegaConf.select(config, "data.apply_chat_template_kwargs") or {}
    return partial(
        tokenizer.apply_chat_template, **{"add_generation_prompt": True, **settings}, tokenize=False
    )


def _of_template(render: Callable[..., str], after: Message) -> tuple[bool, bool]:
    """(drops, marks): the template drops the thoughts of an answer before this message; it marks
    thoughts by other tokens than `<think>`. Both are read from an answer with thoughts as text, and
    one with thoughts in the fields that templates read them from.
    """
    # Templates differ in where thoughts come from: Qwen3 cuts them out of the text, others read a
    # field.
    text = {"role": "assistant", "content": f"{THOUGHTS}\n{IDEA}\n{THOUGHTS_END}\n\n{ANSWER}"}
    fields = {"role": "assistant", "content": ANSWER, "reasoning_content": IDEA, "thinking": IDEA}
    last = render([USER, fields], add_generation_prompt=False)
    thinks = IDEA in last
    earlier = [text, fields] if thinks else [text]
    kept = all(IDEA in render([USER, answer, after]) for answer in earlier)
    return not kept, thinks and THOUGHTS_END not in last


def _answers_start_elsewhere(
    parts: Parts, questions: Sequence[QuestionRow], render: Callable[..., str]
) -> list[str]:
    """`Thoughts.apart`, of the first problem."""
    # A user's dataset class: only the trainer can read its rows.
    if not questions:
        return []
    problem, question = questions[0].problem, list(questions[0].messages)
    prompts = later_prompts(parts, problem, question, "Some feedback.")
    begins = _boundary(render, question)
    return [kind for kind, prompt in prompts if _boundary(render, prompt) != begins]


def _boundary(render: Callable[..., str], messages: Sequence[Message]) -> tuple[str, str]:
    """The text between the last message and the answer, and the last switch."""
    switches = _SOFT_SWITCH.findall("\n".join(message["content"] for message in messages))
    *before, last = messages
    text = last["content"].rstrip()
    # A mark before the text: the text alone may be one letter, which headers have too.
    marked = render([*before, {**last, "content": IDEA + last["content"]}])
    after = marked.rpartition(IDEA)[2]
    # For a template that rewrites this text, use one that no template rewrites.
    as_is = after.startswith(text)
    header = after.removeprefix(text).lstrip() if as_is else _boundary(render, [USER])[0]
    return header, switches[-1] if switches else ""
