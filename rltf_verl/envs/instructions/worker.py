"""The official checkers of IFEval and IFBench, in a process that can be killed: they match regular
expressions of their own on text that a model wrote. See `pool`.

Nothing is downloaded: a rule that needs data which NLTK does not find is named by `lacking`.
"""

from __future__ import annotations

import json
import random
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import langdetect
import nltk

from rltf_verl.texts import counted, one_line

# IFBench's module downloads when it is imported.
nltk.download = lambda *_, **__: False
# The same verdict on the same text each time.
langdetect.DetectorFactory.seed = 0
# The package's own `__init__` imports `datasets`: two seconds, 100 MB.
_spec, _bare = find_spec("if_verifiable"), ModuleType("if_verifiable")
_bare.__path__ = list((_spec and _spec.submodule_search_locations) or ())
sys.modules["if_verifiable"] = _bare

from if_verifiable.common import get_loose_transformations  # noqa: E402
from if_verifiable.ifbench.instructions_registry import INSTRUCTION_DICT as IFBENCH  # noqa: E402
from if_verifiable.ifeval import instructions_registry as ifeval  # noqa: E402

RULES: dict[str, Any] = {**ifeval.INSTRUCTION_DICT, **IFBENCH}
CONFLICTS = ifeval.conflict_make(ifeval.INSTRUCTION_CONFLICTS)
SECTIONS, CASES = "detectable_format:multiple_sections", ("capital", "lowercase")
"""`Section 1` is neither in capitals nor in small letters; the official table forgets it."""
REPEATS = "combination:repeat_prompt"
TRIAL = "Run to the shop. " * 60
"""Long enough for every rule to look for its data."""
MOST = 100
"""Bullet points or paragraphs that are counted."""
FREQUENT = "etaoinshrdl"

Rule = tuple[str, Mapping[str, Any]]
"""An official id, and the arguments of its `build_description`."""


class DataMissing(Exception):  # noqa: N818  of this machine, no verdict
    """NLTK does not find what a rule needs."""


def names() -> list[str]:
    """IFEval's rules."""
    return list(ifeval.INSTRUCTION_DICT)


def lacking(rules: Sequence[Rule]) -> dict[str, str]:
    """Rules that cannot be checked here -> the data of NLTK that they need, or `unknown`."""
    missing = {name: "unknown" for name, _ in rules if name not in RULES}
    for name, arguments in rules:
        if name not in missing:
            try:
                with suppress(ValueError, TypeError):  # arguments that only a row has
                    _keeps(_built(name, arguments, "")[0], TRIAL)
            except DataMissing as error:
                missing[name] = str(error)
    return missing


def draw(seed: str, request: str, rules: Sequence[str], most: int) -> list[Any]:
    """One to `most` rules that do not conflict: id, arguments and sentence of each."""
    random.seed(seed)
    num, drawn = random.randint(1, most), list[Any]()
    for name in random.sample(rules, len(rules)):
        if len(drawn) < num and not any(_conflict(name, other) for other, _, _ in drawn):
            drawn.append(_drawn(name, request))
    return drawn


def _conflict(name: str, other: str) -> bool:
    both = f"{name} {other}"
    return other in CONFLICTS[name] or (SECTIONS in both and any(case in both for case in CASES))


def _drawn(name: str, request: str) -> tuple[str, dict[str, Any], str]:
    """A rule that an answer can keep: the checkers draw a fourth paragraph of three, too."""
    given = {"prompt_to_repeat": request} if name == REPEATS else {}
    while True:
        rule = RULES[name](name)
        sentence, drawn = rule.build_description(**given), rule.get_instruction_args() or {}
        is_less = "less than" in (drawn.get("relation"), drawn.get("let_relation"))
        fewer = is_less and (drawn.get("num_sentences") == 1 or drawn.get("letter", "z") in FREQUENT)
        if not fewer and drawn.get("nth_paragraph", 0) <= drawn.get("num_paragraphs", 0):
            return name, drawn, sentence


def read(rules: Sequence[Rule], prompt: str, text: str) -> list[dict[str, Any]]:
    """The official verdicts on each rule, `strict` and `loose`; its `sentence`, and what was
    `counted` where it is broken.

    Raises:
        DataMissing: a rule cannot be checked here.
    """
    return [_read(name, arguments, prompt, text) for name, arguments in rules]


def _read(name: str, arguments: Mapping[str, Any], prompt: str, text: str) -> dict[str, Any]:
    rule, sentence = _built(name, arguments, prompt)
    strict = _keeps(rule, text)
    # The official loose function makes the rule anew and keeps it for all variants.
    again, _ = _built(name, arguments, prompt)
    loose = any(_keeps(again, variant) for variant in get_loose_transformations(text))
    said = "" if strict or not text.strip() else _counted(name, arguments, text)
    return {"strict": strict, "loose": loose, "sentence": one_line(sentence, 600), "counted": said}


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
        if type(error) is LookupError:  # NLTK's own, and none of its subclasses
            found = re.search(r"nltk\.download\('(\w+)'\)", str(error))
            raise DataMissing(found[1] if found else "data") from None
        return False


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


def _language(_: Mapping[str, Any], text: str) -> str:
    with suppress(langdetect.LangDetectException):
        return f"Its language reads as `{langdetect.detect(text)}`."
    return ""


def _letters(kind: str, is_kind: Callable[[str], bool]) -> Callable[[Mapping[str, Any], str], str]:
    def said(_: Mapping[str, Any], text: str) -> str:
        num = counted(sum(map(is_kind, text)), f"{kind} letter")
        return f"It has {num}. {_language(_, text)}"

    return said


def _json_error(_: Mapping[str, Any], text: str) -> str:
    bare = re.sub(r"^```(json)?|```$", "", text.strip(), flags=re.IGNORECASE).strip()
    try:
        json.loads(bare)
    except ValueError as error:
        return f"It is not JSON: {error}."
    return ""


def _paragraph(arguments: Mapping[str, Any], text: str) -> str:
    parts, k = text.split("\n\n"), arguments["nth_paragraph"]
    begins = f' Paragraph {k} begins with "{parts[k - 1].strip()[:30]}".' if k <= len(parts) else ""
    return f"It has {counted(sum(bool(part.strip()) for part in parts), 'paragraph')}.{begins}"


SAID: dict[str, Callable[[Mapping[str, Any], str], str]] = {
    "language:response_language": _language,
    "length_constraints:nth_paragraph_first_word": _paragraph,
    "detectable_content:postscript": lambda a, _: f'It has no "{a["postscript_marker"]}".',
    "detectable_format:constrained_response": _ends,
    "detectable_format:json_format": _json_error,
    "detectable_format:title": lambda *_: "It has no title in double angular brackets.",
    "combination:two_responses": lambda _, text: (
        f"It has {counted(len(list(filter(str.strip, text.split('******')))), 'answer')}, which"
        " ****** separates, and two different ones are asked for."
    ),
    REPEATS: _ends,
    "startend:end_checker": _ends,
    "startend:quotation": _ends,
    "change_case:english_capital": _letters("small", str.islower),
    "change_case:english_lowercase": _letters("capital", str.isupper),
    "punctuation:no_comma": lambda _, text: f"It has {counted(text.count(','), 'comma')}.",
}


def _counted(name: str, arguments: Mapping[str, Any], text: str) -> str:
    """What an answer has where it breaks a rule of IFEval, as the rule's own checker counts."""
    if name in SAID:
        return SAID[name](arguments, text).strip()
    for key, verb in (("keywords", "lacks"), ("forbidden_words", "has")):
        if words := arguments.get(key):
            alone = [word for word in words if not _keeps_with(name, {key: [word]}, text)]
            return f"It {verb} {', '.join(alone)}."
    for key, (what, relation) in COUNTS.items():
        if name in ifeval.INSTRUCTION_DICT and arguments.get(key) is not None:
            num, how = _number(name, arguments, key, relation, text), arguments.get(relation, relation)
            has = f"{MOST} or more {what}s, or empty ones" if num is None else counted(num, what)
            return f"It has {has}; {how} {arguments[key]} are asked for."
    return ""


def _number(
    name: str, arguments: Mapping[str, Any], key: str, relation: str, text: str
) -> int | None:
    """How many of them the checker counts: the number that `exactly`, or the most that `at least`,
    it takes.
    """
    usual = {**arguments, **({relation: "at least"} if relation in arguments else {})}

    def keeps(num: int) -> bool:
        return _keeps_with(name, {**usual, key: num}, text)

    if relation == "exactly":
        return next(filter(keeps, range(MOST)), None)
    return bisect_left(range(1, len(text) + 2), True, key=lambda num: not keeps(num))


def _keeps_with(name: str, arguments: Mapping[str, Any], text: str) -> bool:
    return _keeps(_built(name, arguments, "")[0], text)

