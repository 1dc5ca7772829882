"""Shared prefixes, tiled log-probs and attention against plain PyTorch, row by row."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
)
from verl.utils import tensordict_utils as tu
from verl.workers.engine.utils import prepare_micro_batches

from rltf_verl.cpu.actor import attention, head
from rltf_verl.cpu.actor.engine import _make_room
from rltf_verl.cpu.actor.forest import lay_out, micro_batches, pack
from tests.sampler.conftest import tiny_llama
from tests.support.engine import plain


def rows_of_groups(groups=3, size=4, seed=0):
    """Rows as a step has them: a prompt per group, answers, and second turns after an answer."""
    draw = np.random.default_rng(seed)
    ids = lambda n: draw.integers(1, 61, n)  # noqa: E731
    system, rows = ids(5), []
    for _ in range(groups):
        prompt = np.concatenate([system, ids(draw.integers(4, 12))])
        for i in range(size):
            first = np.concatenate([prompt, ids(draw.integers(1, 9))])
            rows += [first] if i % 2 else [first, np.concatenate([first, ids(6)]), first]
    return rows


def shared_log_probs(model, rows, temperature=1.0):
    heads = rows, pack([row[:-1] for row in rows])
    forest = lay_out([row[:-1] for row in rows], heads[1])
    order = [i for one in heads[1] for i in one.rows]
    asked = head.LogProbHead(model.get_output_embeddings())
    asked.question = head.Question(
        torch.from_numpy(np.concatenate(forest.nodes)),
        torch.from_numpy(np.concatenate([rows[i][1:] for i in order])),
        temperature,
        True,
    )
    answer = model(
        forest.input_ids, attention_mask=forest.mask, position_ids=forest.position_ids
    ).logits
    log_probs, entropy = answer.chunk(2)
    sizes = [len(rows[i]) - 1 for i in order]
    back = np.argsort(order)
    split = lambda values: [values.split(sizes)[i] for i in back]  # noqa: E731
    return split(log_probs), split(entropy), forest


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_entropy_and_gradient_are_those_of_single_rows(monkeypatch, temperature):
    monkeypatch.setattr(head, "TILE", 16)  # 61 words: the last tile is cut
    rows, reference, model = rows_of_groups(), tiny_llama(), tiny_llama()
    assert attention.shares_prefixes(model)
    attention.use(model)
    log_probs, entropy, forest = shared_log_probs(model, rows, temperature)
    assert forest.input_ids.numel() < 0.7 * sum(map(len, rows))
    loss, plain_loss = torch.zeros(()), torch.zeros(())
    for i, (ours, h, row) in enumerate(zip(log_probs, entropy, rows, strict=True)):
        ids = torch.from_numpy(row)
        outputs = plain.log_probs(reference, ids[:1], ids[1:], temperature)
        theirs, their_h = plain.of_tokens(outputs, ids[1:]), plain.entropy(outputs)
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(h, their_h, atol=2e-5, rtol=1e-5)
        loss = loss + (i % 3 - 1.5) * ours.sum() - 0.3 * (ours * h).sum()
        plain_loss = plain_loss + (i % 3 - 1.5) * theirs.sum() - 0.3 * (theirs * their_h).sum()
    loss.backward()
    plain_loss.backward()
    scale = max(p.grad.abs().max() for p in reference.parameters())
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert (ours.grad - theirs.grad).abs().max() < 1e-5 * scale, name


def test_a_micro_batch_is_bounded_and_holds_every_row_once():
    rows = rows_of_groups(groups=9)
    bins = pack(rows, max_nodes=150)
    parts = micro_batches(bins, max_nodes=150)
    assert sorted(i for part in parts for one in part for i in one.rows) == list(range(len(rows)))
    for part in parts:
        alone = len(part) == 1 and len(part[0].rows) == 1
        assert alone or lay_out(rows, part).input_ids.numel() <= 150


@pytest.mark.parametrize("count", [2, 5, 12])
def test_as_many_micro_batches_as_another_rank_has(count):
    rows = rows_of_groups()
    parts = micro_batches(pack(rows), max_nodes=10_000, at_least=count)
    assert len(parts) == count
    assert all(lay_out(rows, part).nodes for part in parts)
    with pytest.raises(ValueError, match="ppo_max_token_len_per_gpu"):
        micro_batches(pack(rows), max_nodes=10_000, at_least=len(rows) + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wide", [False, True])
def test_attention_with_grouped_heads_is_torchs(monkeypatch, dtype, wide):
    if wide:
        monkeypatch.setattr(attention, "DENSE_WIDTH", 4)
    torch.manual_seed(0)
    query = torch.randn(2, 6, 9, 8, dtype=dtype)
    key, value = torch.randn(2, 2, 2, 9, 8, dtype=dtype)
    mask = torch.rand(2, 1, 9, 9) > 0.4
    mask |= torch.eye(9, dtype=torch.bool)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.float(),
        key.float().repeat_interleave(3, 1),
        value.float().repeat_interleave(3, 1),
        attn_mask=mask,
    ).transpose(1, 2)
    added = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    for given in (mask, added):
        output, _ = attention.attend(torch.nn.Module(), query, key, value, given)
        assert output.dtype == dtype
        assert (output.float() - expected).abs().max() < (1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize(
    ("config", "shares"),
    [
        (LlamaConfig, {}),
        (Qwen2Config, {}),
        (LlamaConfig, {"attention_dropout": 0.1}),
        (MistralConfig, {"sliding_window": 8}),
    ],
)
def test_models_that_cannot_share_are_known(config, shares):
    size = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    model = AutoModelForCausalLM.from_config(
        config(**size, num_attention_heads=4, num_key_value_heads=2, **shares)
    )
    assert attention.shares_prefixes(model) == (not shares)


@pytest.mark.parametrize(
    ("config", "answers"),
    [
        (LlamaConfig(), True),
        (GraniteConfig(logits_scaling=1.0), True),
        (GraniteConfig(logits_scaling=8.0), False),
        (CohereConfig(), False),
        (Gemma2Config(), False),
        (Gemma2Config(final_logit_softcapping=None), True),
    ],
)
def test_models_that_change_their_logits_take_verl_s_path(config, answers):
    assert head.can_answer(torch.nn.Linear(2, 3, bias=False), config) == answers
    assert not head.can_answer(torch.nn.Linear(2, 3), config)


def test_a_row_longer_than_a_micro_batch_gets_one_on_verl_s_path():
    ids = [torch.arange(size) for size in (3, 9, 2)]
    data = tu.get_tensordict(
        {"input_ids": torch.nested.as_nested_tensor(ids, layout=torch.jagged)},
        {"use_dynamic_bsz": True, "max_token_len_per_gpu": 4},
    )
    with pytest.raises(AssertionError):
        prepare_micro_batches(data)
    _make_room(data)
    parts, rows = prepare_micro_batches(data)
    assert len(parts) == 2
    assert sorted(map(sorted, rows)) == [[0, 2], [1]]
