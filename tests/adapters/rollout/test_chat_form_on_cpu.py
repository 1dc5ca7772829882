"""What a template puts around answers, on tokenizers with the templates of ChatML and of models
that think.
"""

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.utils.tokenizer.continuous_token import (
    ContinuousTokenBuilder,
    QwenContinuousTokenBuilder,
)

from rltf_verl.adapters.rollout.chat_form import chat_form
from tests.support.verl_policy import verl_policy

CHATML = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + THOUGHTS +"
    " message.content + '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{"
    " '<|im_start|>assistant\n' + OPENS }}{%- endif %}"
)
EMPTY = "('<think>\n\n</think>\n\n' if loop.last and message.role == 'assistant' else '')"
TEMPLATES = {
    "plain": ("''", "''"),
    # Qwen3: the last answer of a conversation has a block of thoughts, the header only with
    # enable_thinking=False.
    "thinks": (
        EMPTY,
        "('<think>\n\n</think>\n\n' if enable_thinking is defined and not enable_thinking else '')",
    ),
    # Qwen3 2507, QwQ: the header opens the thoughts.
    "header opens": (EMPTY, "'<think>\n'"),
    # R1: so it does there, and answers in a conversation have no thoughts.
    "header opens, no block": ("''", "'<think>\n'"),
}
QUESTION = [{"role": "user", "content": "a"}]


def tokenizer_of(kind: str) -> PreTrainedTokenizerFast:
    """Bytes, with ChatML's tokens; thoughts are marked by tokens that are not special, as
    Qwen's.
    """
    alphabet = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    inner = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    made.add_tokens(["<think>", "</think>"])
    thoughts, opens = TEMPLATES[kind]
    made.chat_template = CHATML.replace("THOUGHTS", thoughts).replace("OPENS", opens)
    return made


def in_words(tokenizer: Any, ids: Any) -> str:
    return str(tokenizer.decode(list(ids)))


@pytest.mark.parametrize(
    ("kind", "settings", "thoughts"),
    [
        ("plain", {}, ""),
        ("thinks", {}, "<think>\n\n</think>\n\n"),
        ("thinks", {"enable_thinking": False}, ""),
        ("header opens", {}, "\n</think>\n\n"),
        ("header opens, no block", {}, "\n</think>\n\n"),
    ],
)
def test_what_stands_for_no_thoughts(kind: str, settings: dict[str, Any], thoughts: str) -> None:
    tokenizer = tokenizer_of(kind)
    form = chat_form(tokenizer, settings)
    assert in_words(tokenizer, form.no_thoughts) == thoughts
    assert in_words(tokenizer, form.end_of_turn) == "<|im_end|>"


async def test_a_critics_target_follows_the_empty_thoughts() -> None:
    tokenizer = tokenizer_of("thinks")
    policy = verl_policy(tokenizer, QwenContinuousTokenBuilder(tokenizer))
    thinking = in_words(tokenizer, await policy.encode(QUESTION))
    not_thinking = in_words(tokenizer, await policy.encode_unthinking(QUESTION))
    assert not_thinking == f"{thinking}<think>\n\n</think>\n\n"
    answered = [*QUESTION, {"role": "assistant", "content": "f"}]
    assert tokenizer.apply_chat_template(answered, tokenize=False) == f"{not_thinking}f<|im_end|>\n"


STRICT = (
    "{%- set ns = namespace(turn='user') %}{%- for message in messages %}"
    "{%- if message.role == 'system' %}{{ '<|im_start|>system\n' + message.content + '<|im_end|>\n'"
    " }}{%- elif message.role != ns.turn %}{{ raise_exception('roles must alternate') }}"
    "{%- else %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- set ns.turn = 'assistant' if ns.turn == 'user' else 'user' %}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
NEEDS_SYSTEM = (
    "{%- if messages[0].role != 'system' %}{{ raise_exception('say who you are') }}{%- endif %}"
)


@pytest.mark.parametrize("end", ["", "<|im_end|>"])
@pytest.mark.parametrize(
    ("builder", "template", "system", "named"),
    [
        (QwenContinuousTokenBuilder, None, False, "<|im_end|>"),
        # verl's for ChatML in a family that it does not list
        (ContinuousTokenBuilder, None, False, "<|im_end|>"),
        # roles must alternate
        (QwenContinuousTokenBuilder, STRICT, False, "<|im_end|>"),
        (QwenContinuousTokenBuilder, NEEDS_SYSTEM + STRICT, True, "<|im_end|>"),
        # as in Phi: the tokenizer's own end token is another one
        (QwenContinuousTokenBuilder, None, False, "<|endoftext|>"),
    ],
)
async def test_a_cut_off_answer_is_ended_before_the_next_message(
    builder: Any, template: str | None, system: bool, named: str, end: str
) -> None:
    tokenizer = tokenizer_of("plain")
    tokenizer.chat_template = template or tokenizer.chat_template
    tokenizer.add_special_tokens({"eos_token": named})
    first = [{"role": "system", "content": "b"}] * system + QUESTION
    messages = [*first, {"role": "assistant", "content": "the answer is 1"}]
    feedback = {"role": "user", "content": "no"}
    policy = verl_policy(tokenizer, builder(tokenizer), prompt_length=640)
    before = (*await policy.encode(first), *tokenizer.encode(f"the answer is 1{end}"))
    ids = await policy.extend(before, messages, feedback)
    assert ids[: len(before)] == before, "what was sampled stays as it is"
    assert in_words(tokenizer, ids) == tokenizer.apply_chat_template(
        [*messages, feedback], add_generation_prompt=True, tokenize=False
    )
    assert in_words(tokenizer, await policy.encode_answer("f")) == "f<|im_end|>"
