"""Templates render what they are given, and nothing else."""

from __future__ import annotations

import pytest

from rltf_verl.prompts import render, template_names

FIELDS = {"question": "Q {{ 1 + 1 }} <b>?", "attempt": "A & {% raw %}", "feedback": "F \\boxed{}"}
REVISE = [name for name in template_names() if name.startswith("revise/")]


def test_there_are_revise_templates() -> None:
    assert {"revise/guide", "revise/critique", "revise/compact"} <= set(REVISE)


@pytest.mark.parametrize("name", REVISE)
def test_revise_templates_quote_their_fields_as_they_are(name: str) -> None:
    text = render(name, **FIELDS)
    assert FIELDS["question"] in text
    assert FIELDS["feedback"] in text
    assert (FIELDS["attempt"] in text) == (not name.endswith("guide")), "only the guides hide the previous attempt"
    assert not text.endswith("\n")


def test_compact_is_three_lines() -> None:
    assert render("revise/compact", question="011", attempt="1", feedback="Wrong.") == "011\n?1\n!Wrong."


def test_unknown_template_names_the_closest() -> None:
    with pytest.raises(ValueError, match=r"'revise/gide' is not known.*Did you mean 'revise/guide'"):
        render("revise/gide", **FIELDS)


def test_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"revise/guide\.j2: 'feedback' is undefined; given: question"):
        render("revise/guide", question="Q")
