"""Templates render what they are given, and nothing else."""

import pytest

from rltf_verl.prompts import render, template_names

FIELDS = {"question": "Q {{ 1 + 1 }} <b>?", "attempt": "A & {% raw %}", "feedback": "F \\boxed{}"}


@pytest.mark.parametrize("name", [name for name in template_names() if name.startswith("revise/")])
def test_revise_templates_quote_their_fields_as_they_are(name: str) -> None:
    text = render(name, **FIELDS)
    assert FIELDS["feedback"] in text
    appended = name.endswith(
        "append"
    )  # there question and attempt stand in the conversation already
    assert (FIELDS["question"] in text) == (not appended)
    hides = appended or name.endswith(("guide", "feedback", "attempts"))
    assert (FIELDS["attempt"] in text) == (not hides), "only these hide the previous attempt"
    assert not text.endswith("\n")


@pytest.mark.parametrize("name", [name for name in template_names() if name.startswith("critic/")])
def test_critic_templates_quote_question_and_attempt_and_need_no_feedback(name: str) -> None:
    text = render(name, question=FIELDS["question"], attempt=FIELDS["attempt"])
    assert FIELDS["question"] in text
    assert FIELDS["attempt"] in text
    assert render(name, **FIELDS) == text


def test_missing_field_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"revise/guide\.j2: 'feedback' is undefined; given: question"
    ):
        render("revise/guide", question="Q")
