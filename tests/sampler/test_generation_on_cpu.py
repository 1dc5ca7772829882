"""The generation core against independent forwards of the same sequences."""

import copy
import gc
import math
import random

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from rltf_verl.cpu.bf16 import has_bf16
from rltf_verl.cpu.services import prepare_model
from rltf_verl.sampler.generation import BatchGenerator, Request
from rltf_verl.sampler.prefixes import Prefixes, num_common
from rltf_verl.sampler.sampling import SamplingParams, sample
from rltf_verl.sampler.slot_cache import SlotLayer
from tests.support.engine import plain

from .conftest import SIZES


def prompt(index: int, length: int) -> list[int]:
    return [(7 * index + 3 * i) % 61 for i in range(length)]


def request(index: int, length: int = 6, **params) -> Request:
    return Request(
        str(index),
        prompt(index, length),
        SamplingParams(**{"max_tokens": 12, "seed": index, **params}),
    )


def run(generator: BatchGenerator, requests=()) -> dict:
    for item in requests:
        generator.add(item)
    results = {}
    while generator.num_unfinished:
        results |= {result.request_id: result for result in generator.step()}
    return results


def tokens_of(results: dict) -> dict:
    return {key: result.token_ids for key, result in results.items()}


def check(model, requests, results, far=1e-5):
    """Log-probs, and greedy tokens, against one forward for each request."""
    with torch.no_grad():
        for item in requests:
            result = results[item.request_id]
            ids = torch.tensor(item.prompt_ids), torch.tensor(result.token_ids)
            # Greedy ones are those of temperature 1.
            outputs = plain.log_probs(model, *ids, item.params.temperature or 1.0)
            expected = plain.of_tokens(outputs, ids[1])
            torch.testing.assert_close(torch.tensor(result.log_probs), expected, atol=far, rtol=0)
            assert item.params.temperature or torch.equal(outputs.argmax(-1), ids[1])


def test_log_probs_are_those_of_one_forward_over_the_whole_sequence(model, batch_of):
    requests = [request(i, 1 + 3 * i, temperature=0.5 * i, max_tokens=5 + i) for i in range(8)]
    results = run(batch_of(model), requests)
    check(model, requests, results)
    for item in requests:
        assert len(results[item.request_id].token_ids) == item.params.max_tokens
    narrow, split = batch_of(model, max_rows=3), batch_of(model, max_prefill_tokens=8)
    for generator in (narrow, split):  # requests beyond its size wait and change nothing
        assert tokens_of(run(generator, requests)) == tokens_of(results)


def test_a_seeded_request_gets_the_same_tokens_alone_in_a_batch_and_joining_late(model, batch_of):
    others = [request(i, 2 + i % 5, max_tokens=4 + i) for i in range(1, 16)]
    alone = run(batch_of(model), [request(0)])["0"]
    in_batch = run(batch_of(model), [*others, request(0)])["0"]
    generator = batch_of(model)
    for other in others:
        generator.add(other)
    for _ in range(6):
        generator.step()
    late = run(generator, [request(0)])["0"]
    assert alone.token_ids == in_batch.token_ids == late.token_ids
    assert alone.log_probs == pytest.approx(late.log_probs, abs=1e-5)


def test_stop_tokens_end_a_sequence_and_stay_in_it(model, batch_of):
    free = run(batch_of(model), [request(1)])["1"].token_ids
    end = free[4]
    first = free.index(end) + 1
    for generator, params in (
        (batch_of(model, eos_token_ids=[end]), {}),
        (batch_of(model), {"stop_token_ids": (end,)}),
    ):
        assert run(generator, [request(1, **params)])["1"].token_ids == free[:first]


def test_an_aborted_request_resumes_with_the_tokens_it_would_have_had(model, batch_of):
    whole = run(batch_of(model), [request(1)])["1"].token_ids
    generator = batch_of(model, max_rows=1)
    generator.add(request(1))
    generator.add(request(2))
    for _ in range(5):
        generator.step()
    aborted = {result.request_id: result for result in generator.abort_all()}
    assert aborted["1"].stop_reason == "aborted"
    assert aborted["1"].token_ids == whole[:5]
    assert aborted["2"].token_ids == []
    assert generator.num_unfinished == 0
    rest = Request("1", prompt(1, 6) + whole[:5], SamplingParams(max_tokens=7, seed=1))
    assert run(generator, [rest])["1"].token_ids == whole[5:]


@pytest.mark.skipif(not has_bf16(), reason="this CPU has no bf16 units")
def test_packed_weights_are_those_that_were_loaded_last(model, other_model):
    served = copy.deepcopy(model).bfloat16()
    generator = BatchGenerator(served, prepare=prepare_model)
    layers = [layer for layer in served.modules() if type(layer) is torch.nn.Linear]
    assert layers
    assert all("forward" in vars(layer) for layer in layers)
    for wanted in (model.bfloat16(), other_model.bfloat16(), model):
        generator.load(wanted.state_dict().items())
        asked = [request(i, 1 + 3 * i) for i in range(4)]
        check(wanted, asked, run(generator, asked), far=0.2)  # of about 4


def test_unseeded_samples_differ_within_a_group_and_do_not_depend_on_arrival_order(model, batch_of):
    group = [Request(f"a{i}", prompt(1, 6), SamplingParams(max_tokens=8)) for i in range(4)]
    other = [Request(f"b{i}", prompt(2, 9), SamplingParams(max_tokens=8)) for i in range(4)]
    one, two = (
        run(batch_of(model), [*group, *other]),
        run(batch_of(model), [*other, *group]),
    )
    assert tokens_of(one) == tokens_of(two)
    assert len({tuple(one[f"a{i}"].token_ids) for i in range(4)}) == 4
    assert run(batch_of(model, seed=1), group)["a0"].token_ids != one["a0"].token_ids


def test_the_cache_of_a_batch_that_ended_is_freed_at_once(model):
    generator = BatchGenerator(model)
    gc.collect()
    gc.disable()  # a cycle of references would hold its tensors until the next collection
    try:
        counts = []
        for _ in range(3):
            run(generator, [request(index, max_tokens=3) for index in range(2)])
            counts.append(sum(type(layer) is SlotLayer for layer in gc.get_objects()))
    finally:
        gc.enable()
    assert len(set(counts)) == 1


def test_truncated_sampling_reports_the_renormalised_distribution():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).repeat(4, 1)
    params = [
        SamplingParams(1, top_k=2),
        SamplingParams(1, top_p=0.7),
        SamplingParams(1, top_p=0.01),
        SamplingParams(1),
    ]
    tokens, log_probs = sample(logits, params, [0.999] * 4)
    assert tokens == [1, 1, 0, 3]
    assert torch.tensor(log_probs).exp().tolist() == pytest.approx(
        [0.375, 0.375, 1.0, 0.05], abs=1e-6
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"repetition_penalty": 1.1}, "repetition_penalty must be 1.0"),
        ({"top_p": 0.0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["x"]}, r"does not support the sampling parameters \['stop'\]"),
    ],
)
def test_unsupported_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        SamplingParams.from_dict({"temperature": 1.0, "logprobs": True, **params}, max_tokens=4)


@pytest.mark.parametrize(
    ("asked", "given"), [({"max_new_tokens": 9}, 4), ({}, 4), ({"max_tokens": 2}, 2)]
)
def test_max_tokens_never_exceeds_the_limit(asked, given):
    assert SamplingParams.from_dict(asked, max_tokens=4).max_tokens == given


def test_a_large_vocabulary_is_drawn_from_as_a_small_one():
    torch.manual_seed(0)
    logits, uniforms = 3 * torch.randn(64, 5000), torch.rand(64).double()
    logits[:, 1024:2048] = -torch.inf  # a whole block that cannot be drawn
    uniforms[:2] = torch.tensor([0.0, 1 - 1e-12], dtype=torch.float64)
    cumulative = logits.double().softmax(-1).cumsum(-1)
    expected = torch.searchsorted(cumulative, uniforms[:, None] * cumulative[:, -1:], right=True)
    tokens, log_probs = sample(logits, [SamplingParams(max_tokens=1)] * 64, uniforms.tolist())
    assert tokens == expected.squeeze(-1).tolist()
    chosen = logits.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None]).squeeze(-1)
    assert torch.tensor(log_probs) == pytest.approx(chosen, abs=1e-6)


def test_a_model_with_a_sliding_window_is_refused_by_name(batch_of):
    config = MistralConfig(**SIZES, sliding_window=8)
    with pytest.raises(ValueError, match=r"mistral has layers of another kind: .*window=null$"):
        batch_of(MistralForCausalLM(config))
    config.sliding_window = None
    assert run(batch_of(MistralForCausalLM(config)), [request(0)])
    config.layer_types = ["sliding_attention"] * config.num_hidden_layers
    with pytest.raises(ValueError, match=r"take another model, or vLLM"):
        batch_of(MistralForCausalLM(config))


@pytest.fixture
def shapes(model):
    """(rows, columns) of the model's forward passes."""
    seen = []
    model.model.embed_tokens.register_forward_pre_hook(
        lambda _, inputs: seen.append(tuple(inputs[0].shape))
    )
    return seen


def test_a_trajectory_computes_only_what_is_new(model, other_model, batch_of, shapes):
    """Its next prompt is the last one, the answer and an observation; another one begins alike."""
    generator = batch_of(model)
    first = request(0, 150)
    answer = run(generator, [first])["0"].token_ids
    longer = [*first.prompt_ids, *answer, *prompt(9, 20)]
    for prompts in ([longer] * 3, [longer[:160] + prompt(5, 8), prompt(3, 30)]):
        shapes.clear()
        asked = [Request(str(i), p, SamplingParams(5, seed=i)) for i, p in enumerate(prompts)]
        results = run(generator, asked)
        assert 1 < max(columns for _, columns in shapes) < 32
        assert {result.version for result in results.values()} == {None}
        check(model, asked, results)

    generator.load(other_model.state_dict().items(), version=7)
    last = Request("0", longer, SamplingParams(5, seed=0))
    after = run(generator, [last])
    assert after["0"].version == 7
    check(other_model, [last], after)


def test_what_prompts_begin_with_alike_is_computed_once(model, batch_of, shapes):
    instructions = prompt(0, 60)
    asked = [
        Request(str(i), instructions + prompt(i, 2 + 5 * i), SamplingParams(5, seed=i))
        for i in range(1, 6)
    ]
    results = run(batch_of(model), asked)
    assert sum(map(math.prod, shapes)) < 60 + 5 * 30 + 5 * 5
    shapes.clear()
    # A long prompt is computed apart: the short ones are not padded to it.
    asked += [request(i, length, max_tokens=5) for i, length in ((6, 200), (7, 9), (8, 8))]
    results |= run(batch_of(model), asked[-3:])
    assert sum(map(math.prod, shapes)) < 200 + 2 * 9 + 3 * 5
    check(model, asked, results, far=1e-4)


@pytest.mark.parametrize("max_tokens", [0, 20, 1000])
def test_the_longest_beginning_is_found_and_what_is_kept_is_bounded(max_tokens):
    draw, prefixes, kept = random.Random(0), Prefixes(max_tokens), []
    for _ in range(60):
        ids = tuple(draw.choices((1, 2), k=draw.randint(1, 8)))
        prefixes.keep(ids, [ids])
        kept = kept if ids in kept else [*kept, ids]
        while sum(map(len, kept)) > max_tokens:
            kept.pop(0)
        asked = tuple(draw.choices((1, 2), k=draw.randint(0, 8)))
        common, states = prefixes.longest(asked)
        assert common == max((num_common(asked, one) for one in kept), default=0)
        assert not common or states[0][:common] == asked[:common]
    prefixes.clear()
    assert prefixes.longest((1, 2)) == (0, [])


PER_TOKEN = 2 * 2 * 2 * 8 * 4
"""Bytes of keys and values: layers, kinds, heads, head size, fp32."""


@pytest.mark.parametrize(("tokens", "most"), [(1024, 16), (1023, 8), (2048, 20), (0, 1)])
def test_a_bounded_cache_runs_fewer_requests_at_a_time(
    model, batch_of, shapes, caplog, tokens, most
):
    """Of 18 tokens at most: 64 columns a slot, in steps of eight slots."""
    requests = [request(i) for i in range(20)]
    whole = run(batch_of(model), requests)
    generator = batch_of(
        model,
        max_cache_bytes=PER_TOKEN * (tokens + 100),
        max_kept_tokens=50,
        max_prefill_tokens=50,
    )
    shapes.clear()
    assert tokens_of(run(generator, requests)) == tokens_of(whole)
    assert max(rows for rows, columns in shapes if columns == 1) == most
    told = [record for record in caplog.records if "gpu_memory_utilization" in record.getMessage()]
    assert len(told) == (most < 20)


def test_a_generator_that_forgets_keeps_no_states(model, batch_of):
    generator = batch_of(model)
    run(generator, [request(0)])
    generator.add(request(1))
    generator.step()
    generator.forget()  # while a request runs
    assert tokens_of(run(generator)) == tokens_of(run(batch_of(model), [request(1)]))
    generator.forget()
    assert generator._prefixes.longest(tuple(request(0).prompt_ids))[0] == 0


def test_every_tensor_names_its_device(model, batch_of):
    """With another default device, one that does not would be on that: on a GPU, in the CPU's
    memory.
    """
    asked = [request(i, 1 + 40 * i) for i in range(4)]
    asked += [request(4, temperature=0.0), request(5, top_k=5), request(6, top_p=0.9)]
    longer = [Request("7", [*asked[3].prompt_ids, 5, 6], asked[3].params)]
    whole = run(expected := batch_of(model), asked) | run(expected, longer)
    torch.set_default_device("meta")
    try:
        generator = batch_of(model, max_cache_bytes=2**30)
        assert run(generator, asked) | run(generator, longer) == whole
        generator.load(model.state_dict().items())
        generator.forget()
    finally:
        torch.set_default_device(None)
