"""The official checkers of IFEval and IFBench, in a process that can be killed: they match regular
expressions of their own on text that a model wrote. See `pool`.

Nothing is downloaded: a rule that needs data which NLTK does not find is named by `lacking`.
"""

from __future__ import annotations

import random
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import langdetect
import nltk

from rltf_verl.texts import counted, one_line, without_chat_tokens

# IFBench's module downloads when it is imported.
nltk.download = lambda *_, **__: False
# The same verdict on the same text each time.
langdetect.DetectorFactory.seed = 0
# The package's own `__init__` imports it for a hub: two seconds, 100 MB.
sys.modules["datasets"] = SimpleNamespace(load_dataset=None)  # type: ignore[assignment]

from if_verifiable.common import get_loose_transformations  # noqa: E402
from if_verifiable.ifbench.instructions_registry import INSTRUCTION_DICT as IFBENCH  # noqa: E402
from if_verifiable.ifeval import instructions_registry as ifeval  # noqa: E402

RULES: dict[str, Any] = {**ifeval.INSTRUCTION_DICT, **IFBENCH}
CAPITALS, LOWERCASE = "change_case:english_capital", "change_case:english_lowercase"
CONFLICTS = ifeval.INSTRUCTION_CONFLICTS
# `Section 1` is neither in capitals nor in small letters; the official table forgets it.
CONFLICTS["detectable_format:multiple_sections"].update((CAPITALS, LOWERCASE))
ifeval.conflict_make(CONFLICTS)
REPEATS = "combination:repeat_prompt"
FOR_YES_OR_NO = "detectable_format:constrained_response"
"""It asks for "My answer is yes." or the like."""
DRAWN = {name: dict[str, Any]() for name in ifeval.INSTRUCTION_DICT if name != FOR_YES_OR_NO}
BREAK = "\n\n"

Rule = tuple[str, Mapping[str, Any]]
"""An official id, and the arguments of its `build_description`."""


def lacking(rules: Sequence[Rule]) -> dict[str, str]:
    """Rules that cannot be checked here -> the data of NLTK that they need. None named: those that
    `draw` would draw.
    """
    tried = rules or list(DRAWN.items())
    return {name: data for name, given in tried if (data := _missing(name, given))}


def _missing(name: str, arguments: Mapping[str, Any]) -> str:
    try:
        with suppress(ValueError, TypeError):  # for want of arguments that only a row has
            _keeps(_built(name, arguments, "")[0], "Run to the shop. " * 60)
    except LookupError as error:
        return "".join(re.findall(r"nltk\.download\('(\w+)'\)", str(error))) or "such rule"
    return ""


def draw(seed: str, requests: Sequence[str]) -> list[Any]:
    """For each request one to three of IFEval's rules that do not conflict: the prompt, the
    request, and id and arguments of the rules.
    """
    random.seed(seed)
    rules = sorted(DRAWN.keys() - lacking([]))
    return [_drawn(request, rules, random.randint(1, 3)) for request in requests]


def _drawn(request: str, rules: Sequence[str], num: int) -> tuple[str, str, list[Rule]]:
    drawn: dict[str, tuple[str, Any]] = {}
    for name in random.sample(rules, len(rules)):
        if len(drawn) < num and drawn.keys().isdisjoint(CONFLICTS[name]):
            drawn[name] = _possible(name, request)
    return (
        "\n".join([request, *(sentence for sentence, _ in drawn.values())]),
        request,
        [(name, arguments) for name, (_, arguments) in drawn.items()],
    )


def _possible(name: str, request: str) -> tuple[str, dict[str, Any]]:
    """A rule that an answer can keep: the checkers draw a fourth paragraph of three, too."""
    while True:
        rule, given = RULES[name](name), {"prompt_to_repeat": request} if name == REPEATS else {}
        sentence, drawn = rule.build_description(**given), rule.get_instruction_args() or {}
        no_way = "less than" in (drawn.get("relation"), drawn.get("let_relation")) and (
            drawn.get("num_sentences") == 1 or drawn.get("letter", "z") in "etaoinshrdl"
        )
        if not no_way and drawn.get("nth_paragraph", 0) <= drawn.get("num_paragraphs", 0):
            return sentence, drawn


def read(rules: Sequence[Rule], prompt: str, text: str) -> list[dict[str, Any]]:
    """Each `rule` with the official verdicts, `strict` and `loose`; its `sentence`, and what was
    `counted` if it is broken.

    Raises:
        LookupError: NLTK does not find what a rule needs.
    """
    verdicts = []
    for name, arguments in rules:
        # The official functions make the rule again, and the loose one keeps it for all variants.
        (rule, said), (again, _) = (_built(name, arguments, prompt) for _ in range(2))
        strict, num = _keeps(rule, text), ""
        loose = any(_keeps(again, variant) for variant in get_loose_transformations(text))
        if not strict and text.strip():
            with suppress(Exception):  # a count is worth no verdict
                num = _counted(name, arguments, text)
        verdicts.append(
            {
                "rule": name.partition(":")[2].replace("_", " "),
                "strict": strict,
                "loose": loose,
                "sentence": one_line(said, 600),
                "counted": num,
            }
        )
    return verdicts


def _built(name: str, arguments: Mapping[str, Any], prompt: str) -> tuple[Any, str]:
    """A rule and its sentence. Arguments of another rule are null in the official rows."""
    random.seed(0)  # a few rules draw what their row leaves out
    rule = RULES[name](name)
    sentence = rule.build_description(**{k: v for k, v in arguments.items() if v is not None})
    if "prompt" in (rule.get_instruction_args() or {}):
        sentence = rule.build_description(prompt=prompt)
    return rule, str(sentence)


def _keeps(rule: Any, text: str) -> bool:
    try:
        return bool(text.strip() and rule.check_following(text))
    except Exception as error:  # IFBench's checkers raise on short answers: not followed
        if type(error) is LookupError:  # NLTK's own, and none of its subclasses: data is missing
            raise
        return False


LISTS = {"keywords": "lacks", "forbidden_words": "has"}
COUNTS = {
    "num_bullets": ("bullet point", "exactly"),
    "num_paragraphs": ("paragraph", "exactly"),
    "num_placeholders": ("placeholder", "at least"),
    "num_highlights": ("highlighted part", "at least"),
    "num_sections": ("marked section", "at least"),
    "num_words": ("word", "relation"),
    "num_sentences": ("sentence", "relation"),
    "frequency": ("such word", "relation"),
    "let_frequency": ("such letter", "let_relation"),
    "capital_frequency": ("all-capital word", "capital_relation"),
}
"""Argument -> what it counts, and how the number is meant: in words, or by another argument."""


def _ends(_: Mapping[str, Any], text: str) -> str:
    line = one_line(text.strip(), len(text) + 1)
    return f'It begins with "{line[:40]}" and ends with "{line[-40:]}".'


SAID: dict[str, Callable[[Mapping[str, Any], str], str]] = {
    "language:response_language": lambda _, text: (
        f"Its language reads as `{langdetect.detect(text)}`."
    ),
    "length_constraints:nth_paragraph_first_word": lambda given, text: (
        f"It has {counted(len(list(filter(str.strip, text.split(BREAK)))), 'paragraph')}; number"
        f" {given['nth_paragraph']} begins with"
        f' "{BREAK.join(text.split(BREAK)[given["nth_paragraph"] - 1 :]).strip()[:30]}".'
    ),
    "detectable_content:postscript": lambda given, _: f'It has no "{given["postscript_marker"]}".',
    FOR_YES_OR_NO: _ends,
    "detectable_format:json_format": _ends,
    "detectable_format:title": lambda *_: "It has no title in double angular brackets.",
    "combination:two_responses": lambda _, text: (
        f"It has {counted(len(list(filter(str.strip, text.split('******')))), 'answer')}, which"
        " ****** separates, and two different ones are asked for."
    ),
    REPEATS: _ends,
    "startend:end_checker": _ends,
    "startend:quotation": _ends,
    CAPITALS: lambda _, text: (
        f"It has {counted(sum(map(str.islower, text)), 'small letter')}; its language reads as"
        f" `{langdetect.detect(text)}`."
    ),
    LOWERCASE: lambda _, text: (
        f"It has {counted(sum(map(str.isupper, text)), 'capital letter')}; its language reads as"
        f" `{langdetect.detect(text)}`."
    ),
    "punctuation:no_comma": lambda _, text: f"It has {counted(text.count(','), 'comma')}.",
}


def _counted(name: str, arguments: Mapping[str, Any], text: str) -> str:
    """Count of an answer that breaks a rule of IFEval, by the rule's own checker."""
    if name in SAID:
        return SAID[name](arguments, without_chat_tokens(text))
    key = next((key for key in (*LISTS, *COUNTS) if arguments.get(key) is not None), None)
    if key is None or name in IFBENCH:
        return ""
    what, relation = COUNTS.get(key, ("", ""))
    usual = {**arguments, **({relation: "at least"} if relation in arguments else {})}

    def keeps(value: Any) -> bool:
        return _keeps(_built(name, {**usual, key: value}, "")[0], text)

    if key in LISTS:
        return f"It {LISTS[key]} {', '.join(word for word in arguments[key] if not keeps([word]))}."
    # The number that `exactly`, or the largest that `at least`, accepts.
    num = (
        next(filter(keeps, range(100)), -1)
        if relation == "exactly"
        else bisect_left(range(1, len(text) + 2), True, key=lambda num: not keeps(num))
    )
    has = f"100 or more {what}s, or an empty one" if num < 0 else counted(num, what)
    return f"It has {has}; {arguments.get(relation, relation)} {arguments[key]} are asked for."
