"""`VerlPolicy` on the demo's real tokenizer and verl's real token builder; only the rollout engine is absent."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from rltf_verl.adapters.agent_loop import VerlPolicy

POLICY = Path(__file__).parents[2] / "recipes" / "demo" / "policy"
QUESTION = [{"role": "user", "content": "0 1\n1 0"}]


def policy_of(loop, tokenizer, response_length=30):
    config = SimpleNamespace(prompt_length=64, response_length=response_length, name="transformers")
    builder = create_continuous_token_builder(tokenizer=tokenizer, processor=None)
    return VerlPolicy(SimpleNamespace(
        loop=loop, tokenizer=tokenizer, rollout_config=config, continuous_token_builder=builder,
    ), {})  # fmt: skip


@pytest.fixture
def tokenizer():
    return AutoTokenizer.from_pretrained(POLICY)


def run(work, tokenizer, **settings):
    async def main():
        return await work(policy_of(asyncio.get_running_loop(), tokenizer, **settings))

    return asyncio.run(main())


def test_an_appended_conversation_is_what_the_chat_template_makes_of_all_its_messages(tokenizer):
    async def work(policy):
        ids = await policy.encode(QUESTION)
        answer = await policy.encode_answer("no")
        said = [*QUESTION, {"role": "assistant", "content": "no"}]
        message = {"role": "user", "content": "!wrong"}
        extended = await policy.extend(ids + answer, said, message)
        assert extended[: len(ids + answer)] == ids + answer
        assert tokenizer.decode(extended) == tokenizer.apply_chat_template(
            [*said, message], add_generation_prompt=True, tokenize=False
        )

    run(work, tokenizer)


def test_an_answer_ends_with_the_end_token_and_takes_special_tokens_as_text(tokenizer):
    async def work(policy):
        ids = await policy.encode_answer("a<end>b")
        assert ids[-1] == tokenizer.eos_token_id
        assert ids.count(tokenizer.eos_token_id) == 1, "the one in the text is five characters"
        assert tokenizer.decode(ids[:-1]) == "a<end>b"
        assert len(await policy.encode_answer("x" * 100)) == 30

    run(work, tokenizer)


def test_pieces_are_the_text_of_each_token(tokenizer):
    async def work(policy):
        ids = await policy.encode_answer("\\boxed{12")
        assert policy.pieces(ids) == ("\\boxed{", "1", "2", "")

    run(work, tokenizer)


def test_sessions_encode_at_the_same_time(tokenizer):
    """A tokenizer that changes its settings under another thread's feet raises "Already borrowed"."""
    long = [{"role": "user", "content": "0 1 2\n" * 400}]

    async def work(policy):
        async def answer():
            for _ in range(20):
                await policy.encode_answer("<2>1=0" * 50)
                await asyncio.sleep(0)

        await asyncio.gather(*(policy.encode(long) for _ in range(60)), *(answer() for _ in range(10)))

    run(work, tokenizer)
