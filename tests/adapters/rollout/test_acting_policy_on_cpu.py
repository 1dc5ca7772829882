"""`VerlPolicy` as an acting policy: verl's parser and token builder on Qwen2.5's template."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from transformers import PreTrainedTokenizerFast
from verl.utils.tokenizer.continuous_token import (
    ContinuousTokenBuilder,
    QwenContinuousTokenBuilder,
)

from rltf_verl.adapters.rollout.verl_policy import VerlPolicy
from rltf_verl.policy import Calls

from .test_chat_form_on_cpu import tokenizer_of

TEMPLATE = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""  # noqa: E501
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The file."}},
            "required": ["path"],
        },
    },
}
QUESTION = [{"role": "user", "content": "How long is a.txt?"}]


def call(path: str) -> str:
    return f'<tool_call>\n{{"name": "look", "arguments": {{"path": "{path}"}}}}\n</tool_call>'


def tokenizer_with_tools() -> PreTrainedTokenizerFast:
    """Bytes, with the template of Qwen2.5."""
    made = tokenizer_of("plain")
    made.add_tokens(["<tool_call>", "</tool_call>"])
    made.chat_template = TEMPLATE
    return made


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return tokenizer_with_tools()


def run(work, tokenizer, builder=QwenContinuousTokenBuilder, engine=None, tools=(TOOL,)):
    async def main():
        loop = SimpleNamespace(
            tokenizer=tokenizer,
            rollout_config=SimpleNamespace(
                prompt_length=4000,
                response_length=2000,
                name="transformers",
                full_determinism=False,
                multi_turn=SimpleNamespace(format="hermes"),
            ),
            continuous_token_builder=builder(tokenizer, chat_template_kwargs={}),
            server_manager=engine,
        )
        policy = VerlPolicy(loop, {}, tools=tools)
        return await work(policy)

    return asyncio.run(main())


def looked(*paths: str) -> tuple[str, dict, list[dict]]:
    """Calls as they are sampled, and as messages; their results."""
    functions = [{"name": "look", "arguments": {"path": path}} for path in paths]
    calls = [{"type": "function", "function": function} for function in functions]
    results = [{"role": "tool", "name": "look", "content": f"{path} has 3 lines"} for path in paths]
    said = {"role": "assistant", "content": "", "tool_calls": calls}
    return "\n".join(map(call, paths)), said, results


@pytest.mark.parametrize("builder", [QwenContinuousTokenBuilder, ContinuousTokenBuilder])
@pytest.mark.parametrize(
    ("tools", "answer", "said", "results"),
    [
        ([TOOL], *looked("a.txt")),
        ([TOOL], *looked("a.txt", "b.txt")),
        # without tools an observation is a message of the user
        (
            [],
            "go",
            {"role": "assistant", "content": "go"},
            [{"role": "user", "content": "You see a wall."}],
        ),
    ],
)
def test_a_played_step_reads_as_the_chat_template_writes_it(
    tokenizer, builder, tools, answer, said, results
):
    async def work(policy):
        ids = await policy.encode(QUESTION) + await policy.encode_answer(answer)
        observed = await policy.observe(ids, results)
        assert observed[: len(ids)] == ids, "no drift"
        return tokenizer.decode(observed)

    messages = [*QUESTION, said, *results]
    assert run(work, tokenizer, builder, tools=tools) == tokenizer.apply_chat_template(
        messages, tools=tools or None, add_generation_prompt=True, tokenize=False
    )


@pytest.mark.parametrize(
    ("answer", "paths", "malformed"),
    [
        ("It has three lines.", [], False),
        (f"Let me look.\n{call('a')}", ["a"], False),
        (f"{call('a')}\n{call('b')}", ["a", "b"], False),
        (f"{call('a')} and <tool_call>{{broken</tool_call>", ["a"], True),
        ("<tool_call>{broken</tool_call>", [], True),
        ("<tool_call>{never closed", [], True),
    ],
)
def test_calls_are_read_by_verls_parser(tokenizer, answer, paths, malformed):
    async def work(policy):
        ids = await policy.encode_answer(answer)
        # as sampled: a call's marks are tokens
        ids = (*tokenizer.encode(answer, add_special_tokens=False), ids[-1])
        return ids, await policy.read_calls(ids)

    ids, read = run(work, tokenizer)
    assert [json.loads(arguments)["path"] for _, arguments in read.calls] == paths
    assert read.malformed == malformed
    if paths:
        start, end = read.span
        acted = tokenizer.decode(ids[start:end])
        assert acted.startswith("<tool_call>")
        assert acted.endswith("</tool_call>")
    else:
        assert read == Calls((), malformed)


def test_an_observation_is_cut_by_tokens(tokenizer):
    async def work(policy):
        return await policy.clip("ab" * 500_000, 10), await policy.clip("short", 10)

    assert run(work, tokenizer) == ("ababa\n[… 999990 tokens left out …]\nbabab", "short")


@pytest.mark.parametrize("num_steps", [8, 128])
def test_a_step_costs_the_same_however_many_came_before(tokenizer, num_steps, monkeypatch):
    """Counted in rendered characters: what is encoded again grows with nothing."""
    rendered = []
    template = tokenizer.apply_chat_template

    def counted(messages, **options):
        rendered.append(len(messages))
        return template(messages, **options)

    monkeypatch.setattr(tokenizer, "apply_chat_template", counted)

    async def work(policy):
        ids = await policy.encode(QUESTION)
        for _ in range(num_steps):
            ids += await policy.encode_answer(call("a"))
            ids = await policy.observe(ids, [{"role": "tool", "name": "look", "content": "wall"}])
        return ids

    run(work, tokenizer)
    assert len(rendered) <= 5 + 2 * num_steps
    assert max(rendered) <= 5
