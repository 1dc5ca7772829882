"""`rltf parity` on the texts of the release's mode `feedback_modeling`.

The cases are our own, in the schema of its parity file, written down from what its code does; only
the instruction in front is not its wording.
"""

import json

import pytest

from tools.parity.run import run_parity

USER = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
ASSISTANT = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
INSTRUCTION = "Say what is wrong with the attempt.\n\n"
HEAD = f"{USER}Question: Who lies?\n\nUse the critique to do better.\n\nYour Previous Solution:\n"
RULES = "\n\nInstructions:\n- Start afresh.\n\nThink."


def case(name, attempt, critique, target, before=None):
    """The prompt of a second turn, and the example that the release makes of it."""
    before = f"{HEAD}{attempt}\n\n" if before is None else before
    return {
        "name": name,
        "observation_text": f"{HEAD}{attempt}\n\nExpert Critique:\n{critique}{RULES}{ASSISTANT}",
        "sequence_text": f"{USER}{INSTRUCTION}{before}Critique: {ASSISTANT}{target}<|eot_id|>",
        "target_text_with_weight_1": f"{target}<|eot_id|>",
        "n_target_tokens": 5,
    }


PLAIN = case("plain", "Ann lies.", "Critique: ask Bob\nfirst.", "Critique: ask Bob\nfirst.")
MARKER_IN_ATTEMPT = case(
    "marker_in_attempt",
    "Expert Critique: none. So Ann.",
    "c",
    "none. So Ann.\n\nExpert Critique:\nc",
    before=HEAD,
)
INSTRUCTIONS_IN_CRITIQUE = case("cut", "a", "Read the Instructions: all of them.", "Read the")
NO_INSTRUCTIONS = {
    "name": "open",
    "observation_text": f"{USER}Question: q\n\nExpert Critique: c{ASSISTANT}",
    "target_text_with_weight_1": (
        "c<|eot_id|><|start_header_id|>assistant<|end_header_id|><|eot_id|>"
    ),
}
GUIDE = {
    "name": "binary_matrix",
    "observation_text": f"{USER}Question: q\n\nExpert Guide:\nc{RULES}{ASSISTANT}",
    "raises": "ValueError: not enough values to unpack (expected 2, got 1)",
}
EPISODE = {
    "name": "three_turns",
    "observation_text": [
        f"{USER}q{ASSISTANT}",
        PLAIN["observation_text"],
        INSTRUCTIONS_IN_CRITIQUE["observation_text"],
    ],
    "n_rows": 2,
}
SOLVED = {"name": "solved_at_once", "observation_text": [f"{USER}q{ASSISTANT}"], "n_rows": 0}
CASES = [
    PLAIN,
    MARKER_IN_ATTEMPT,
    INSTRUCTIONS_IN_CRITIQUE,
    NO_INSTRUCTIONS,
    GUIDE,
    EPISODE,
    SOLVED,
]
NO_WORDING = (
    "feedback_modeling sequence_text: the wording of the instruction, which is the release's own"
)
NO_TOKENIZER = (
    "feedback_modeling n_target_tokens: needs the tokenizer of the release; the text is compared"
)


def run(tmp_path, part):
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": [], "feedback_modeling": part}))
    return run_parity(path)


@pytest.mark.parametrize("part", [CASES, {"cases": CASES}])
def test_the_texts_of_the_release_are_made_here_too(tmp_path, part):
    report = run(tmp_path, part)
    assert (report.differences, report.num_compared) == ([], 3 * 4 + 1 + 1 + 1 + 1)
    assert report.not_covered == {NO_WORDING: 3, NO_TOKENIZER: 3}


def edited(key, old, new):
    return PLAIN | {key: PLAIN[key].replace(old, new, 1)}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (
            edited("target_text_with_weight_1", "Bob", "Rob"),
            "plain]: target_text_with_weight_1, from character",
        ),
        (
            edited("target_text_with_weight_1", "<|eot_id|>", ""),
            "plain]: target_text_with_weight_1",
        ),
        (edited("sequence_text", "ask Bob", "ask Rob"), "plain]: sequence_text, ending"),
        (
            edited("sequence_text", "Critique: <|eot_id|>", "Critique; <|eot_id|>"),
            "plain]: sequence_text, ending",
        ),
        (edited("sequence_text", "Ann lies", "Ann lied"), "plain]: sequence_text, prompt"),
        (
            edited("sequence_text", "Question: Who", "Question: who"),
            "plain]: sequence_text, prompt",
        ),
        (edited("sequence_text", "<|begin_of_text|>", ""), "plain]: sequence_text, beginning"),
        (GUIDE | {"raises": "KeyError"}, "binary_matrix]: raises"),
        (
            PLAIN | {"raises": "ValueError"},
            "plain]: raises, from character 0",
        ),
        (PLAIN | {"observation_text": GUIDE["observation_text"]}, "plain]: texts, from"),
        (EPISODE | {"n_rows": 3}, "three_turns]: n_rows: this package 2, release 3"),
    ],
)
def test_one_changed_text_is_reported_and_nothing_else(tmp_path, changed, named):
    (difference,) = run(tmp_path, [changed]).differences
    assert difference.startswith(f"feedback_modeling[{named}")


def test_the_sentence_that_dual_critique_mode_cuts_out_is_not_compared(tmp_path):
    report = run(tmp_path, [edited("sequence_text", "Use the critique to do better.", "")])
    assert report.differences == []
    assert (
        "feedback_modeling sequence_text: the revision sentence that is cut out in dual-critique"
        " mode" in (report.not_covered)
    )


def test_the_input_of_a_datum_lacks_its_last_token(tmp_path):
    shifted = PLAIN["sequence_text"].removesuffix("<|eot_id|>")
    assert run(tmp_path, [PLAIN | {"sequence_text": shifted}]).differences == []


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (3, "feedback_modeling: not a list of cases"),
        ([1], "feedback_modeling: not a list of cases"),
        ({"case": []}, "feedback_modeling: not a list of cases"),
        ([{}], "feedback_modeling[0]: neither texts nor `raises` nor `n_rows`"),
        ([{"name": "x", "raises": "ValueError"}], "feedback_modeling[x]: no `observation_text`"),
        ([{"sequence_text": "s"}], "feedback_modeling[0]: no `observation_text`"),
        (
            [{**PLAIN, "observation_text": "<|im_start|>user"}],
            "feedback_modeling[plain]: not in Llama 3's chat format",
        ),
        (
            [{"n_rows": 1}],
            "feedback_modeling n_rows: the case does not hold all prompts of its episode",
        ),
        (
            [{"n_rows": 1, "observation_text": [1, 2]}],
            "feedback_modeling 0: of another shape than known here",
        ),
        (
            [{**GUIDE, "seed": 1}],
            "feedback_modeling case `seed`: not a part of the schema that is known here",
        ),
        (
            {"cases": [], "sha256": "x"},
            "feedback_modeling `sha256`: not a part of the schema that is known here",
        ),
    ],
)
def test_another_shape_is_named_and_no_difference(tmp_path, part, named):
    report = run(tmp_path, part)
    assert report.differences == []
    assert any(what.startswith(named) for what in report.not_covered), report.not_covered
