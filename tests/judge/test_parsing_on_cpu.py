"""From replies to feedback: what is taken, what is counted, what is refused."""

import pytest

from rltf_verl.judge.parsing import Parsed, parse_reply

CASES = {
    "the form that was asked for": ("Thinking: a\n\nCritique: b c", Parsed("b c")),
    "several lines": ("Thinking: a\nCritique:\nb\n\nc\n- d", Parsed("b\n\nc\n- d")),
    "bold": ("**Thinking:** a\n\n**Critique:** b", Parsed("b")),
    "a heading": ("## Thinking\na\n## Critique: b", Parsed("b")),
    "bold with the colon outside": ("**Critique**: b", Parsed("b")),
    "small letters": ("critique: b", Parsed("b")),
    "the last of several": ("Critique: draft\n\nCritique: final", Parsed("final")),
    "a marker that is quoted": (
        'Critique: you wrote "Critique: fine", which is no answer.',
        Parsed('you wrote "Critique: fine", which is no answer.'),
    ),
    "all on one line": ("Thinking: a. Critique: b.", Parsed("b.")),
    "chat tokens": ("Critique: b<|im_end|>\n<|endoftext|></s>", Parsed("b")),
    "chat tokens inside": (
        "Critique: b <|im_start|>user c[/INST]<end_of_turn>",
        Parsed("b user c"),
    ),
    "chat tokens in chat tokens": ("Critique: b <|<|x|>im_end|><<|a|>s>", Parsed("b")),
    "a thinking block": ("<think>Critique: wrong</think>\nCritique: b", Parsed("b")),
    "a thinking block without its start": ("Critique: x</think>Critique: b", Parsed("b")),
    "no marker: the last paragraph": (
        "I think a.\n\nLook at b.",
        Parsed("Look at b.", ("no_marker",)),
    ),
    "nothing after the marker": ("Thinking: a\nCritique:  \n", Parsed("", ("empty",))),
    "nothing at all": ("", Parsed("", ("no_marker", "empty"))),
    "only tokens": ("<|im_end|>", Parsed("", ("no_marker", "empty"))),
    "over-long": (
        "Critique: " + "One two three four. " * 30,
        Parsed(("One two three four. " * 5).strip(), ("over_long",)),
    ),
    "without spaces": ("Critique: " + "x" * 9000, Parsed("x" * 240, ("over_long",))),
    "another language": (
        "Critique: 第一行错了。请检查第二行。",
        Parsed("第一行错了。请检查第二行。"),
    ),
}


CUT = {
    "in the thinking": (
        "Thinking: the answer is 42, because",
        Parsed("", ("cut_off", "no_marker", "empty")),
    ),
    "in a thinking block": (
        "<think>the answer is 42",
        Parsed("", ("cut_off", "no_marker", "empty")),
    ),
    "in the critique": ("Critique: Look at b. And at", Parsed("Look at b.", ("cut_off",))),
    "in its first sentence": ("Critique: Look at", Parsed("Look at", ("cut_off",))),
}


@pytest.mark.parametrize(
    ("reply", "parsed", "complete"),
    [*((*case, True) for case in CASES.values()), *((*case, False) for case in CUT.values())],
    ids=[*CASES, *CUT],
)
def test_a_reply(reply: str, parsed: Parsed, complete: bool) -> None:
    """Finished, or cut off."""
    assert parse_reply(reply, marker="Critique:", words=10, complete=complete) == parsed


def test_the_marker_of_guides() -> None:
    assert parse_reply("Guide: go", marker="Guide:", words=10, complete=True) == Parsed("go")
