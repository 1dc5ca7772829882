"""What a template puts around answers, on tokenizers with the templates of ChatML and of models
that think.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl.utils.tokenizer.continuous_token import (
    ContinuousTokenBuilder,
    QwenContinuousTokenBuilder,
)

from rltf_verl.adapters.rollout.agent_loop import VerlPolicy
from rltf_verl.adapters.rollout.chat_form import chat_form

POLICY = Path(__file__).parents[3] / "recipes" / "demo" / "policy"
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


def run(tokenizer: Any, builder: Any, work: Any) -> Any:
    model = OmegaConf.create(
        {"actor_rollout_ref": {"model": {"path": str(POLICY), "hf_config_path": None}}}
    )

    async def main() -> Any:
        rollout = SimpleNamespace(
            prompt_length=640, response_length=64, name="transformers", full_determinism=False
        )
        loop = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            tokenizer=tokenizer,
            rollout_config=rollout,
            config=model,
            continuous_token_builder=builder,
            server_manager=None,
        )
        return await work(VerlPolicy(loop, {}))

    return asyncio.run(main())


@pytest.mark.parametrize("builder", [QwenContinuousTokenBuilder, ContinuousTokenBuilder])
@pytest.mark.parametrize("ended", [True, False])
def test_a_cut_off_answer_is_ended_before_the_next_message(ended: bool, builder: Any) -> None:
    """The second builder is verl's for ChatML in a family that it does not list."""
    tokenizer = tokenizer_of("plain")
    answer = tokenizer.encode("the answer is 1" + ("<|im_end|>" if ended else ""))

    async def extended(policy: VerlPolicy) -> tuple[int, ...]:
        first = await policy.encode(QUESTION)
        said = [*QUESTION, {"role": "assistant", "content": "the answer is 1"}]
        ids = await policy.extend((*first, *answer), said, {"role": "user", "content": "no"})
        assert ids[: len(first) + len(answer)] == (
            *first,
            *answer,
        ), "what was sampled stays as it is"
        return ids

    ids = run(tokenizer, builder(tokenizer), extended)
    said = [
        *QUESTION,
        {"role": "assistant", "content": "the answer is 1"},
        {"role": "user", "content": "no"},
    ]
    assert in_words(tokenizer, ids) == tokenizer.apply_chat_template(
        said, add_generation_prompt=True, tokenize=False
    )


def test_a_critics_target_follows_the_empty_thoughts() -> None:
    tokenizer = tokenizer_of("thinks")

    async def prompts(policy: VerlPolicy) -> tuple[str, str]:
        thinking, not_thinking = (
            await policy.encode(QUESTION),
            await policy.encode_unthinking(QUESTION),
        )
        assert not_thinking[: len(thinking)] == thinking
        return in_words(tokenizer, thinking), in_words(tokenizer, not_thinking)

    thinking, not_thinking = run(tokenizer, QwenContinuousTokenBuilder(tokenizer), prompts)
    assert not_thinking == f"{thinking}<think>\n\n</think>\n\n"
    said = [*QUESTION, {"role": "assistant", "content": "f"}]
    assert tokenizer.apply_chat_template(said, tokenize=False) == f"{not_thinking}f<|im_end|>\n"


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


def conversation_of(tokenizer: Any, first: list[dict[str, str]], answer: str) -> tuple[str, str]:
    """What our policy and what the template itself make of an answer and feedback on it."""
    said = [*first, {"role": "assistant", "content": "the answer is 1"}]
    feedback = {"role": "user", "content": "no"}

    async def extended(policy: VerlPolicy) -> tuple[int, ...]:
        ids = await policy.encode(first)
        return await policy.extend((*ids, *tokenizer.encode(answer)), said, feedback)

    ids = run(tokenizer, QwenContinuousTokenBuilder(tokenizer), extended)
    whole = tokenizer.apply_chat_template(
        [*said, feedback], add_generation_prompt=True, tokenize=False
    )
    return in_words(tokenizer, ids), whole


@pytest.mark.parametrize("end", ["", "<|im_end|>"])
@pytest.mark.parametrize("system", [False, True])
def test_a_template_in_which_roles_must_alternate_has_second_turns(system: bool, end: str) -> None:
    tokenizer = tokenizer_of("plain")
    tokenizer.chat_template = (NEEDS_SYSTEM if system else "") + STRICT
    first = [{"role": "system", "content": "b"}] * system + QUESTION
    ours, whole = conversation_of(tokenizer, first, f"the answer is 1{end}")
    assert ours == whole
    assert in_words(tokenizer, chat_form(tokenizer, {}).end_of_turn) == "<|im_end|>"


@pytest.mark.parametrize("end", ["", "<|im_end|>"])
def test_an_end_token_without_a_name_is_the_end(end: str) -> None:
    """As in Phi: the tokenizer's own end token is another one."""
    tokenizer = tokenizer_of("plain")
    tokenizer.add_special_tokens({"eos_token": "<|endoftext|>"})
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") not in tokenizer.all_special_ids
    ours, whole = conversation_of(tokenizer, QUESTION, f"the answer is 1{end}")
    assert ours == whole

    async def target(policy: VerlPolicy) -> tuple[int, ...]:
        return await policy.encode_answer("f")

    ids = run(tokenizer, QwenContinuousTokenBuilder(tokenizer), target)
    assert in_words(tokenizer, ids) == "f<|im_end|>"
