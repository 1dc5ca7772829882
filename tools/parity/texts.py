"""The texts of the release's mode `feedback_modeling`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tools.parity.release_fm import (
    END_OF_TURN,
    ReleaseExample,
    header,
    release_example,
    release_examples,
)
from tools.parity.report import Check, Json, Report

PART = "feedback_modeling"
TEXT_KEYS = {"sequence_text", "target_text_with_weight_1"}
KEYS = {
    *TEXT_KEYS,
    "name",
    "description",
    "observation_text",
    "n_target_tokens",
    "raises",
    "n_rows",
}


def compare_feedback_modeling(part: Any, report: Report) -> None:
    """All cases; what has another shape than expected is named as not compared."""
    cases = part.get("cases") if isinstance(part, Mapping) else part
    if part is None:
        return
    if not isinstance(cases, list) or not all(isinstance(case, Mapping) for case in cases):
        report.skip(f"{PART}: not a list of cases")
        return
    if isinstance(part, Mapping):
        report.skip_unknown(PART, part, {"cases"})
    for i, case in enumerate(cases):
        report.skip_unknown(f"{PART} case", case, KEYS)
        with report.skipping(f"{PART} {case.get('name', i)}"):
            _compare_case(case, Check(report, f"{PART}[{case.get('name', i)}]"))


def _compare_case(case: Json, check: Check) -> None:
    prompt, has_texts = case.get("observation_text"), not TEXT_KEYS.isdisjoint(case)
    if "n_rows" in case:
        _compare_num_rows(case, check)
    if not has_texts and not case.get("raises"):
        if "n_rows" not in case:
            check.report.skip(f"{check.where}: neither texts nor `raises` nor `n_rows`")
    elif not isinstance(prompt, str):
        check.report.skip(f"{check.where}: no `observation_text`")
    elif case.get("raises"):
        _compare_error(prompt, case["raises"], check)
    elif header("user") not in prompt:
        check.report.skip(f"{check.where}: not in Llama 3's chat format")
    else:
        _compare_texts(prompt, case, check)


def _compare_num_rows(case: Json, check: Check) -> None:
    prompts = case.get("observation_text")
    if not isinstance(prompts, list):
        check.report.skip(f"{PART} n_rows: the case does not hold all prompts of its episode")
        return
    try:
        check.close("n_rows", len(release_examples(prompts)), case["n_rows"])
    except ValueError as error:
        check.text("n_rows", f"raises {type(error).__name__}", case["n_rows"])


def _compare_error(prompt: str, theirs: Any, check: Check) -> None:
    """The kind of error, if it is named; how it is worded is the release's own."""
    named = re.search(r"\w+Error", str(theirs))
    try:
        release_example(prompt)
        ours = "nothing"
    except ValueError as error:
        ours = type(error).__name__
    check.text("raises", ours, named[0] if named else "ValueError")


def _compare_texts(prompt: str, case: Json, check: Check) -> None:
    try:
        example = release_example(prompt)
    except ValueError as error:
        check.text("texts", f"raises {type(error).__name__}: {error}", case.get("sequence_text"))
        return
    if "target_text_with_weight_1" in case:
        check.text("target_text_with_weight_1", example.target, case["target_text_with_weight_1"])
    if "sequence_text" in case:
        _compare_sequence(example, case["sequence_text"], check)
    if "n_target_tokens" in case:
        check.report.skip(
            f"{PART} n_target_tokens: needs the tokenizer of the release; the text is compared"
        )


def _compare_sequence(example: ReleaseExample, theirs: Any, check: Check) -> None:
    """Both ends, and `before` in front of the second; between them stands the release's
    instruction.
    """
    sequence = theirs if isinstance(theirs, str) else repr(theirs)
    if not sequence.endswith(
        END_OF_TURN
    ):  # the input of a datum lacks its last token, which stands in the target
        sequence += END_OF_TURN
    check.text("sequence_text, beginning", example.beginning, sequence[: len(example.beginning)])
    check.text("sequence_text, ending", example.ending, sequence[-len(example.ending) :])
    middle = sequence[len(example.beginning) : -len(example.ending)]
    check.report.skip(
        f"{PART} sequence_text: the wording of the instruction, which is the release's own"
    )
    if _lacks_revision_sentence(example.before, middle):
        check.report.skip(
            f"{PART} sequence_text: the revision sentence that is cut out in dual-critique mode"
        )
        return
    check.text("sequence_text, prompt", example.before, middle[-len(example.before) :])


def _lacks_revision_sentence(before: str, middle: str) -> bool:
    """Whether `middle` ends with `before` less the line in front of the quoted attempt."""
    head, quoted, rest = before.partition("Your Previous Solution:")
    kept = head.rstrip().rpartition("\n")[0].rstrip()
    shortened = (f"{kept}{gap * chr(10)}{quoted}{rest}" for gap in range(5))
    return (
        not middle.endswith(before)
        and header("user") in kept
        and any(map(middle.endswith, shortened))
    )
