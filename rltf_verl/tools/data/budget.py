"""How many tokens the prompts of a dataset have, first ones and revise prompts, under a
tokenizer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from rltf_verl.data.made_for import AS_IT_IS, made_for, make, takes_rows_of
from rltf_verl.data.schema import environments_of, text_of
from rltf_verl.episode.parts import template_for
from rltf_verl.episode.templates import TEMPLATES
from rltf_verl.prompts.lengths import Lengths, empty_revision, lengths_of
from rltf_verl.tools.data.check import CheckedFile

BATCH = 512
"""Prompts that are encoded in one call; the tokenizer spreads them over the cores."""


@dataclass(frozen=True, slots=True)
class PromptLengths:
    """Tokens of one kind of prompt in a file."""

    path: Path
    what: str
    tokens: Lengths

    @property
    def fault(self) -> str:
        """The fix for rows above the limit; empty without them."""
        if not self.tokens.num_over:
            return ""
        less = ", or lower --feedback-tokens" if self.what.startswith("revise") else ""
        return (
            f"{self.path}: {self.tokens.num_over} of its rows have a {self.what} of more than"
            f" {self.tokens.limit} tokens (the longest: {self.tokens.longest}): raise"
            f" data.max_prompt_length or drop these rows{less}"
        )


def load_tokenizer(path: str | Path) -> Any:
    """A tokenizer from a local folder.

    Raises:
        ValueError: not found there, or without a chat template.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except Exception as error:  # transformers raises many kinds
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        if not Path(path).is_dir():
            cause = "no such folder, and no such model in the hub's cache"
        raise ValueError(f"--tokenizer {path}: cannot be loaded from there ({cause})") from error
    if not tokenizer.chat_template:
        raise ValueError(
            f"--tokenizer {path}: it has no chat template, which verl needs for prompts"
        )
    return tokenizer


def template_of_file(path: str | Path) -> str:
    """The template of revise prompts in a run with the environment that a checked file names; the
    usual one if that environment cannot be made here.
    """
    env = takes_rows_of(path, AS_IT_IS, {})
    try:
        return template_for(env or make(path, made_for(path, min(environments_of(path)))))
    except ValueError:
        return TEMPLATES["attempt"]


def prompt_lengths(
    files: Sequence[CheckedFile],
    tokenizer: Any,
    limit: int | None,
    revise: str | None,
    feedback_tokens: int,
) -> list[PromptLengths]:
    """Lengths of first prompts, and of revise prompts without an attempt.

    An attempt is cut to what is left of the budget, so a revise prompt fits if it does so without
    one.

    Args:
        files: with their first prompts. Images in them are not counted.
        tokenizer: with a chat template.
        limit: `data.max_prompt_length`.
        revise: template, `rltf.episode.revise`; None is that of the file's environment.
        feedback_tokens: tokens that are allowed for the feedback.
    """
    lengths = []
    for file in files:
        if not file.messages:
            continue
        template = revise or template_of_file(file.path)
        firsts = [_text_only(prompt) for prompt in file.messages]
        revisions = [empty_revision(template, prompt) for prompt in firsts]
        first = _count(firsts, tokenizer, "first prompts")
        second = [n + feedback_tokens for n in _count(revisions, tokenizer, "revise prompts")]
        what = f"revise prompt (template {template}, {feedback_tokens} for the feedback)"
        lengths.append(PromptLengths(file.path, "first prompt", lengths_of(first, limit)))
        lengths.append(PromptLengths(file.path, what, lengths_of(second, limit)))
    return lengths


def _text_only(prompt: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{"role": m["role"], "content": text_of(m["content"])} for m in prompt]


def _count(chats: Sequence[list[dict[str, str]]], tokenizer: Any, what: str) -> list[int]:
    batches = [chats[i : i + BATCH] for i in range(0, len(chats), BATCH)]
    progress = track(
        batches, what, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    counts: list[int] = []
    for batch in progress:
        texts = tokenizer.apply_chat_template(batch, add_generation_prompt=True, tokenize=False)
        # the template has written the special tokens already
        counts += [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    return counts
