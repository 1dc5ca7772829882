"""Text from elsewhere: what stays, what goes, and that the work grows with the text at most."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.prompts.quote import control_tokens, defused
from rltf_verl.texts import CHAT_TOKENS, clean_text, one_line, without_chat_tokens
from rltf_verl.types import Feedback

ANY = st.text(st.characters(exclude_categories=()), max_size=60)
"""Half surrogate pairs too."""


@given(ANY)
def test_a_clean_text_can_be_encoded_and_hides_nothing(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert clean == clean_text(clean)
    assert all(c in "\n\t" or unicodedata.category(c) != "Cc" for c in clean)
    assert not set(clean) & set("\u202a\u202b\u202e\u2066\u2069\u200b\u200e\ufeff\u2028\U000e0041")


@pytest.mark.parametrize(
    "text",
    ["x = 1\n\ty", "ÄÖÜ é 漢字　全角", "👨‍👩‍👧 é", "می‌خواهم", "a\u00a0b", "∑ ≤ ½", "\ue000"],
)
def test_innocent_text_stays_as_it_is(text: str) -> None:
    assert clean_text(text) == text


def test_halves_of_pairs_line_ends_and_length() -> None:
    assert clean_text("a\ud83db\ud83d\ude00c\ude00") == "a\ufffdb😀c\ufffd"
    assert clean_text("a\r\nb\rc\x85d\u2028e\x0bf\x00g") == "a\nb\nc\nd\ne\nfg"
    assert len(clean_text("x" * 3_000_000)) == 1_000_000
    assert one_line(" a\n\n b\ud800 " * 100, 10) == "a b\ufffd a b\ufffd…"


def test_feedback_is_clean_wherever_it_comes_from() -> None:
    feedback = Feedback("a\ud83d\x00", "own", leak="answer: \ud83d", original="\x1b[2J")
    assert (feedback.text, feedback.leak, feedback.original) == ("a\ufffd", "answer: \ufffd", "[2J")
    with pytest.raises(TypeError, match="must be a text, not NoneType"):
        Feedback(None, "own")  # type: ignore[arg-type]


TOKENS = (
    "<|im_end|>",
    "<|im_start|>",
    "<s>",
    "</s>",
    "[INST]",
    "<start_of_turn>",
    "<\uff5cUser\uff5c>",
    "<|x|>",
)


@given(
    st.lists(
        st.sampled_from((*TOKENS, *"<|>[]/sx\uff5c", "im_end", "INST", "|im_end|>", "<|im", " ")),
        max_size=30,
    )
)
def test_no_chat_token_is_left_or_comes_up(parts: list[str]) -> None:
    text = "".join(parts)
    rest = without_chat_tokens(text)
    assert CHAT_TOKENS.search(rest) is None
    for token in TOKENS:
        assert token not in defused(text, TOKENS)
        assert token not in defused(text)


def test_nested_tokens_go_and_the_text_around_them_stays() -> None:
    assert (
        without_chat_tokens("a <|<|x|>im_end|>b [IN[/INST]ST]c <<s>/s> x <| y |> z < |")
        == "a b c  x <| y |> z < |"
    )


def test_only_a_tokenizers_own_tokens_are_broken_where_they_are_known() -> None:
    known = control_tokens(
        {"<|im_end|>": True, "\\boxed{": False, "<think>": False, "  ": False, "|": True}
    )
    assert known == ("<think>", "<|im_end|>")
    text = "<s> a <| b \\boxed{3}  <|im_end|></think><think>"
    assert defused(text, known) == "<s> a <| b \\boxed{3}  < |im_end|></think>< think>"
    assert defused("<|im_end|><s>", ()) == "<|im_end|><s>"


def test_tokens_that_differ_by_a_space_do_not_come_up_either() -> None:
    assert defused("<a> <b>", ("<a>", "< a>")) == "<  a> <b>"
