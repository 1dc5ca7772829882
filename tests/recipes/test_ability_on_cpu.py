"""recipes/pretrained/ability.py: the likelihood of an answer is that of its own tokens."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.recipes import house_style  # noqa: F401  # makes the files beside it importable
from tests.recipes.composing import RECIPES, program

POLICY = RECIPES / "demo/policy"


def test_answers_are_compared_by_the_likelihood_of_their_own_tokens() -> None:
    ability = program("pretrained/ability.py")
    tokenizer = AutoTokenizer.from_pretrained(POLICY, padding_side="right")
    model = AutoModelForCausalLM.from_pretrained(POLICY)
    text, answers = "1 0 1", ["0 1", "1 0 0 1 1", "1"]
    expected = []
    with torch.inference_mode():
        for answer in answers:
            before, whole = (tokenizer(one).input_ids for one in (text, f"{text} {answer}"))
            own = model(input_ids=torch.tensor([whole])).logits[0].log_softmax(-1)
            places = range(len(before), len(whole))
            expected.append(sum(float(own[i - 1, whole[i]]) for i in places))
        found = ability.log_likelihoods(model, tokenizer, text, answers)
        assert found == pytest.approx(expected, abs=1e-3)
        question = ability.Question(text, answers, right=0)
        best = max(range(3), key=lambda i: expected[i] / len(answers[i]))
        assert ability.answer(model, tokenizer, question, per_letter=True) == best
        assert ability.answer(model, tokenizer, question, per_letter=False) == expected.index(
            max(expected)
        )
