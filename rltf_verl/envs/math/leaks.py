r"""Passages of a text that may state the answer of a mathematical problem.

The leak guard has each of them graded, which costs a grader process some milliseconds: what cannot
be the answer by its digits and letters is left out here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.math.leaks_readings import digit_by_digit, from_attempt
from rltf_verl.envs.text.arithmetic_phrases import expressions
from rltf_verl.envs.text.boxed import last_box
from rltf_verl.envs.text.number_words import number_spans, spell_digits
from rltf_verl.envs.text.plain_text import MAX_TEXT

Passage = tuple[int, int, str]
"""Where it stands, and what it says."""

MAX_CANDIDATES = 20
MAX_SPAN = 200
"""Longest passage that is taken for an answer."""
TELLING = 10
"""Numbers from here on, and those that are not whole, tell the answer even where no word says that
they do.
"""

_NUMBER = re.compile(
    r"(?<![\w.,])-?\s?\d+\s+over\s+\d+(?![\w])"
    r"|(?<![\w.,^/])-?\s?(?:\d[\d,]*\d|\d)(?:\.\d+)?(?:\s*/\s*\d+(?:\.\d+)?)?(?![\w^]|[.,/]\d)"
    r"|-?\\[dt]?frac\s*\{\s*-?\d+\s*\}\s*\{\s*\d+\s*\}",
    re.ASCII,
)
_MINUS = re.compile(r"\b(?:minus|negative)(?=\s+\d)", re.IGNORECASE)
_THOUSANDS = re.compile(r"\b(\d{1,3})\s+thousand(?:\s+(?:and\s+)?(\d{1,3}))?\b", re.IGNORECASE)
_PARTS = {
    **dict.fromkeys(("half", "halve"), 2),
    "third": 3,
    **dict.fromkeys(("quarter", "fourth"), 4),
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
_IN_PARTS = re.compile(rf"\b(\d{{1,3}})[\s-]+({'|'.join(_PARTS)})s?(?![\w-])", re.I | re.A)
_FRACTION = re.compile(r"(-?)\\[dt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}", re.ASCII)
_CUE = re.compile(
    r"(?:\b(?:answer|result|solution|value|total|sum|should|equals?|gets?|gives?|yields?|obtain|exactly|correct|actually"
    r"|final|makes?|leads?|comes?|arrive|replace|become|instead|expected|end\s+up|find|write|turns\s+out|remains?"
    r"|antwort|ergebnis|losung|lautet|ergibt|reponse|resultat|vaut|donne|respuesta|resultado|solucion|risposta|risultato"
    r"|soluzione|resposta|solucao|antwoord|uitkomst|odpowiedz|wynik|ответ|результат|решение|равно|svaret|assert|print)\b"
    r"|答案|结果|答え|正解|答|정답|답은|[=≈]|\\boxed\s*\{)[^.!?\n]{0,40}$",
    re.IGNORECASE,
)
_IS = re.compile(r"\b(?:is|are|be|was)\s+\$?$", re.IGNORECASE)
_STOP = re.compile(
    r"\s*\$?\s*(?:[.!?;,](?:\s|$)|$|(?:and|but)\s+not\b|(?:is|was)\s+(?:right|correct|the)\b|in\s+total\b)"
)
_IS_IT = re.compile(
    r"\s*\$?\s*(?:is|was|would\s+be)\s+(?:right|correct|what|the\s+(?:right|correct|answer|result))\b",
    re.I,
)
_PLACE = re.compile(
    r"\b(?:step|line|part|equation|case|row|question|problem|point|item|hint|section)s?\s*\(?$",
    re.I,
)
_MATH = re.compile(
    r"\$\$?([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]|`([^`\n]+)`|\*\*([^*\n]+)\*\*"
    r"|\banswer\b[^.\n:=]{0,30}?(?:\bis\b|:|=)\s*([^\n]{1,200}?)(?:[.;]\s|[.;]?$|\n)",
    re.IGNORECASE | re.MULTILINE,
)
_SIGN = re.compile(
    r"\\(?:left|right|cdot|times|[,;!])|\\[dt]?frac|\\[a-zA-Z]+|(?<=\d)\s*pi\b|[^\s{}$*`]"
)
_PLAIN_SIGNS = {
    **dict.fromkeys(("\\left", "\\right", "\\cdot", "\\times", "\\,", "\\;", "\\!"), ""),
    "\\dfrac": "\\frac",
    "\\tfrac": "\\frac",
    "π": "\\pi",
    "pi": "\\pi",
    "√": "\\sqrt",
    "²": "^2",
    "³": "^3",
    "·": "",
    "−": "-",
}
MIN_PLAIN = 3
"""Characters from which on a reference that is no number counts wherever it stands."""
_CHOICE = re.compile(r"\(?([A-HJ-Z])\)?\.?")
"""A reference that names one of the choices in the question."""
_CHOSEN = (
    r"(?i:\b(?:(?:choose|pick|select)(?:\s+the)?|(?:answer|choice|option|it|that)(?:['’]s|\s+is|\s+(?:should|must)\s+be))"
    r"\s+(?:(?:option|choice|answer|letter)\s+)?)[($*]{0,3}(LETTER)[)$*]{0,3}(?![\w'’-]|\s*[,/]|\s+or\b)"
    r"|(?<!\w)(LETTER)[)$*]{0,3}\s+(?i:is|was)\s+(?i:the\s+)?(?i:right|correct|answer)(?![\w-])"
)
_DRESS = re.compile(r"\\[$!,;:]|\^\s*\{?\s*\\circ\s*\}?")
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")
_UNIT = re.compile(rf"\s*{_WRAPPED.pattern}(?:\s*\^\s*\{{?\s*\d\s*\}}?)?\s*$")
_BOX = re.compile(r"\\boxed\s*\{")
_COMMAND = re.compile(r"\\[a-zA-Z]+")


def answer_candidates(
    question: str, reference: str, text: str, attempt: str = ""
) -> list[Candidate]:
    """Passages that may say `reference`, at most `MAX_CANDIDATES`, each of them as an answer in a
    box.

    A number that the question holds, or a small whole one, counts only where a word says that it is
    the answer.

    Args:
        question: the problem's.
        reference: its answer.
        text: the feedback.
        attempt: the answer that it is about: a text may say by how much it is off.
    """
    text, reference = text[:MAX_TEXT], undressed(reference)
    value = _value(reference)
    found = _expressions(question, reference, text)
    if value is not None:
        found = chain(
            _numbers(question, value, text), _worked_out(question, value, text, _value(attempt))
        )
    passages = {(start, end): answer for start, end, answer in (*_boxes(text), *found)}
    some = sorted(passages.items())[:MAX_CANDIDATES]
    return [Candidate(start, end, f"\\boxed{{{answer}}}") for (start, end), answer in some]


def undressed(reference: str) -> str:
    r"""A reference without the LaTeX that a sentence leaves out: dollars, degrees, thin spaces, the
    unit behind a number, what words are wrapped in.

    >>> [undressed(r) for r in (r"90^\circ", r"\$18", r"12\text{ cm}", r"\text{Evelyn}")]
    ['90', '18', '12', 'Evelyn']
    """
    plain = _DRESS.sub("", reference).strip()
    number = _UNIT.sub("", plain)
    return number if _value(number) is not None else _WRAPPED.sub(r"\1", plain).strip()


def _numbers(question: str, wanted: Fraction, text: str) -> Iterator[Passage]:
    shown = _in_digits(text)
    parts = _IN_PARTS.finditer(spell_digits(text))
    ends = dict(number_spans(text)) | dict(m.span() for m in parts)
    known = {_value(m[0]) for m in _NUMBER.finditer(_in_digits(question))}
    tells = wanted not in known and (abs(wanted) >= TELLING or wanted.denominator > 1)
    for found in _NUMBER.finditer(shown):
        start, end = found.span()
        if _value(found[0]) != wanted or _PLACE.search(shown[max(0, start - 20) : start].rstrip()):
            continue
        if tells or _told(shown, start, end):
            yield (
                start,
                max(end, ends.get(end - len(found[0].lstrip("- ")), end)),
                re.sub(r"\s+over\s+", "/", found[0].strip()),
            )


def _worked_out(
    question: str, wanted: Fraction, text: str, attempt: Fraction | None
) -> Iterator[Passage]:
    """The answer digit by digit, as a sum that is said to be it, or as the wrong answer with what
    it is off.
    """
    known = {_value(m[0]) for m in _NUMBER.finditer(spell_digits(question))}
    found = list(digit_by_digit(text)) if wanted not in known and abs(wanted) >= TELLING else []
    asked = "".join(question.split())
    found += [
        (start, end, value)
        for start, end, value in expressions(text)
        if _CUE.search(text[max(0, start - 80) : start])
        and "".join(text[start:end].split()) not in asked  # a quotation of what is to be worked out
    ]
    if attempt is not None:
        found += from_attempt(text, attempt)
    for start, end, value in found:
        if value == wanted:
            yield start, end, str(wanted)


def _in_digits(text: str) -> str:
    """`text` of the same length with digits for numbers in words."""
    shown = spell_digits(text.replace("\N{MINUS SIGN}", "-"))
    shown = _IN_PARTS.sub(lambda m: f"{m[1]}/{_PARTS[m[2].lower()]}".ljust(len(m[0])), shown)
    shown = _THOUSANDS.sub(lambda m: f"{m[1]}{m[2] or '0':0>3}".ljust(len(m[0])), shown)
    return _MINUS.sub(lambda m: "-".rjust(len(m[0])), shown)


def _told(text: str, start: int, end: int) -> bool:
    """The words around a number say that it is the answer, or it is all there is on its line."""
    before = text[max(0, start - 80) : start]
    if _IS_IT.match(text, end):
        return True
    if _CUE.search(before) or (_IS.search(before) and _STOP.match(text, end)):
        return True
    line = text[text.rfind("\n", 0, start) + 1 : start] + text[end:].partition("\n")[0]
    return not re.search(r"\w", line)


def _expressions(question: str, reference: str, text: str) -> Iterator[Passage]:
    letters, words = _letters(reference), reference.strip()
    seen: set[str] = set()
    for found in _MATH.finditer(text):
        start, end = found.span(found.lastindex or 0)
        passage = text[start:end].strip()
        fits = 0 < len(passage) <= MAX_SPAN and _letters(passage) >= letters
        if fits and passage not in seen and (passage == words or passage not in question):
            seen.add(passage)
            yield start, end, passage
    if choice := _CHOICE.fullmatch(words):
        for found in re.finditer(_CHOSEN.replace("LETTER", choice[1]), text):
            yield *found.span(found.lastindex or 0), words
    plain_question, _ = _plain_math(question)
    wanted, (plain, places) = _plain_math(words)[0], _plain_math(text)
    at = -1
    if len(wanted) >= MIN_PLAIN and wanted not in plain_question:
        forms = (wanted, wanted.upper(), wanted.capitalize()) if wanted.isalpha() else (wanted,)
        at = max(map(plain.find, forms))
    if at >= 0 and words not in seen:
        start, end = places[at], places[at + len(wanted) - 1] + 1
        if not _goes_on(text[max(0, start - 1) : start + 1]) and not _goes_on(
            text[end - 1 : end + 1]
        ):
            yield start, end, words


def _goes_on(two: str) -> bool:
    """Two characters that belong to one number or word."""
    return len(two) == 2 and two.isascii() and two.isalnum()


def _plain_math(text: str) -> tuple[str, list[int]]:
    """Mathematics without blanks and layout, and where in `text` its characters stand."""
    plain, places = "", []
    for found in _SIGN.finditer(text):
        sign = _PLAIN_SIGNS.get(found[0].strip(), found[0])
        plain += sign
        places += [found.start()] * (len(sign) - 1) + [found.end() - 1] if sign else []
    return plain, places


def _boxes(text: str) -> Iterator[Passage]:
    for box in _BOX.finditer(text):
        inner = last_box(text[box.start() : box.end() + MAX_SPAN])
        if inner and len(inner) < MAX_SPAN:
            yield box.end(), box.end() + len(inner), inner.strip()


def _letters(expression: str) -> set[str]:
    """The variables of an expression, in lower case: equal ones have the same."""
    return {c for c in _COMMAND.sub(" ", expression).casefold() if c.isalpha()}


def _value(text: str) -> Fraction | None:
    """The number that all of `text` is, if it is a plain one."""
    plain = text.strip().strip("$").strip()
    plain = _FRACTION.sub(r"\1\2/\3", plain).replace(",", "").replace(" over ", "/")
    plain = re.sub(r"\s", "", plain).removesuffix("\\%")
    if len(plain) > 40 or not re.fullmatch(
        r"-?-?\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)?", plain, re.ASCII
    ):
        return None
    above, _, below = plain.removeprefix("--").partition("/")
    divisor = Fraction(below or 1)
    return Fraction(above) / divisor if divisor else None
