"""Whether student and teacher begin their answers at the same place under the model's chat
template, and what the template does with thoughts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.rollout.chat_form import ANSWER, SYSTEM, USER
from rltf_verl.adapters.startup.budget import REVISE, TEACHER, first_prompt, later_prompts
from rltf_verl.data.schema import files_of, first_rows, problem_of
from rltf_verl.episode.parts import Parts
from rltf_verl.findings import Finding, Rule, findings
from rltf_verl.texts import THOUGHTS, THOUGHTS_END
from rltf_verl.types import Message

IDEA = "1414213"
"""Stands for thoughts; digits, which no template changes."""
SWITCH = "enable_thinking"
SETTINGS = "data.apply_chat_template_kwargs"
_SOFT_SWITCH = re.compile(r"/(?:no_?)?think\b")
"""In a message; models that know it obey the last one."""


@dataclass(frozen=True)
class Thoughts:
    """A run's thoughts."""

    switch_ignored: bool
    """The template has no `enable_thinking`, which is set."""
    dropped: bool
    """The template drops the thoughts of earlier answers."""
    unmarked: bool
    """The template marks thoughts by other tokens than `<think>` and `</think>`."""
    apart: Sequence[str]
    """Kinds of later prompts after which an answer begins elsewhere than after the question."""
    appended: bool
    quotes: bool
    """Attempts are quoted without their thoughts."""


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
        f"{SETTINGS}.{SWITCH}",
        lambda t: t.switch_ignored,
        "the model's chat template has no such switch",
        "leave it out, or set the template's own (gpt-oss: reasoning_effort)",
        "warning",
    ),
    Rule(
        "rltf.episode.context",
        lambda t: t.appended and t.dropped,
        "the chat template drops the thoughts of earlier answers, which an appended context keeps:"
        " a server would show the policy other conversations than it is trained on",
        "set it to fresh, or serve the model with a template that keeps them",
        "warning",
    ),
    Rule(
        "rltf.episode.quote",
        lambda t: t.quotes and t.unmarked,
        "the chat template does not put thoughts in <think>…</think>, so quoted attempts hold them",
        "set it to none, or to all if this is meant",
        "warning",
    ),
)


def thought_findings(config: DictConfig, parts: Parts, tokenizer: Any) -> Iterator[Finding]:
    """What is wrong with thoughts. A template that cannot render a prompt is left to `budget`."""
    rltf = parts.config
    settings: Any = OmegaConf.select(config, SETTINGS) or {}
    render = partial(_rendered, tokenizer, settings)
    try:
        dropped, unmarked = _of_template(render)
        thoughts = Thoughts(
            switch_ignored=SWITCH in settings
            and render([USER], **{SWITCH: True}) == render([USER], **{SWITCH: False}),
            dropped=dropped,
            unmarked=unmarked,
            apart=_apart(config, parts, render),
            appended=rltf.episode.context == "append" and rltf.episode.horizon > 1,
            quotes=rltf.episode.quote == "answer"
            and (rltf.episode.horizon > 1 or (rltf.teaches and "sibling" in rltf.teacher.sources)),
        )
    except Exception:  # templates raise what they like
        return
    yield from findings(RULES, thoughts, config)


def _rendered(
    tokenizer: Any,
    settings: Mapping[str, Any],
    messages: Sequence[Mapping[str, str]],
    header: bool = True,
    **more: Any,
) -> str:
    render = partial(
        tokenizer.apply_chat_template,
        tokenize=False,
        add_generation_prompt=header,
        **{**settings, **more},
    )
    try:
        return str(render(list(messages)))
    except Exception:  # the template's: it cannot do without a system message
        return str(render([SYSTEM, *messages]))


def _of_template(render: Any) -> tuple[bool, bool]:
    """`Thoughts.dropped` and `.unmarked`, from an answer with thoughts as text and one with
    thoughts in the fields that templates read them from.
    """
    text = {"role": "assistant", "content": f"{THOUGHTS}\n{IDEA}\n{THOUGHTS_END}\n\n{ANSWER}"}
    fields = {"role": "assistant", "content": ANSWER, "reasoning_content": IDEA, "thinking": IDEA}
    last = render([USER, fields], header=False)
    thinks = IDEA in last
    lost = thinks and IDEA not in render([USER, fields, USER])
    return lost or IDEA not in render([USER, text, USER]), thinks and THOUGHTS_END not in last


def _apart(config: DictConfig, parts: Parts, render: Any) -> list[str]:
    """`Thoughts.apart`, of the training data's first problem."""
    if OmegaConf.select(config, "data.custom_cls.path") is not None:
        return []
    row = first_rows(files_of(config.data.train_files)[0], 1)[0]
    question = first_prompt(row)
    boundary = partial(_boundary, render)
    prompts = later_prompts(parts, problem_of(parts.env, row), question, "")
    begins = boundary(question)
    return [kind for kind, prompt in prompts if boundary(prompt) != begins]


def _boundary(render: Any, messages: Sequence[Message]) -> tuple[str, str]:
    """What stands between the last message and the answer, and the last switch."""
    switches = _SOFT_SWITCH.findall("\n".join(message["content"] for message in messages))
    *before, last = messages
    text = last["content"].rstrip()
    # A mark before the text: the text alone may be one letter, which headers have too.
    marked = render([*before, {**last, "content": IDEA + last["content"]}])
    after = marked.rpartition(IDEA)[2]
    header = after.removeprefix(text) if after.startswith(text) else ""
    return header, switches[-1] if switches else ""
