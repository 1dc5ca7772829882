"""Public questions: the likelihood of an answer is that of its own tokens; no place is favoured."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rltf_verl.tools.export.public_questions import log_likelihoods, right_answers

POLICY = Path(__file__).parents[3] / "recipes/demo/policy"


def test_answers_are_compared_by_the_likelihood_of_their_own_tokens() -> None:
    tokenizer = AutoTokenizer.from_pretrained(POLICY, padding_side="right")
    model = AutoModelForCausalLM.from_pretrained(POLICY)
    text, answers = "1 0 1", ["0 1", "1 0 0 1 1", "1"]
    expected = []
    with torch.inference_mode():
        for one in answers:
            before, whole = (tokenizer(words).input_ids for words in (text, f"{text} {one}"))
            own = model(input_ids=torch.tensor([whole])).logits[0].log_softmax(-1)
            places = range(len(before), len(whole))
            expected.append(sum(float(own[i - 1, whole[i]]) for i in places))
    found = log_likelihoods(model, tokenizer, text, [f" {one}" for one in answers])
    assert found == pytest.approx(expected, abs=1e-3)
    best = max(range(3), key=lambda i: expected[i] / len(answers[i]))
    orders = [answers[k:] + answers[:k] for k in range(3)]
    wanted = [k == best for k in range(3)]
    assert right_answers(model, tokenizer, [(text, order) for order in orders]) == wanted


def test_a_tie_is_wrong() -> None:
    tokenizer = AutoTokenizer.from_pretrained(POLICY, padding_side="right")
    model = AutoModelForCausalLM.from_pretrained(POLICY)
    assert right_answers(model, tokenizer, [("1", ["0", "0"])]) == [False]
