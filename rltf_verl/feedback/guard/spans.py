r"""Where a text may state an answer, for environments without a finder of their own.

`answer_spans` are places where answers usually stand: the grader decides. `reference_spans` are
the reference itself: as a number, a chosen letter, or an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from rltf_verl.envs.text.number_words import as_number, spell_digits

Span = tuple[int, int]

MAX_SPAN = 400
"""Longest passage that is taken for an answer."""
MAX_SPANS = 100
"""Passages of one text that are looked at."""
TELLING = 10
"""From here on a number, and any fraction, tells the answer without a word that announces it."""

_BOXED = re.compile(r"\\boxed\s*\{")
_BARE_BOX = re.compile(r"\\boxed\s+([A-Za-z0-9]+)")
_QUOTED = re.compile(
    r"\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)|\$([^$\n]+)\$"
    r"|\*\*([^*\n]+)\*\*|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]"
)
_ANNOUNCED = re.compile(
    r"\b(?:answer|result|solution|value|total|outcome)s?\b[^.\n:=]{0,40}?(?:\bis\b|\bare\b|\bequals\b|\bbe\b|:|=)["
    r" \t]*"
    r"(?:(?:exactly|simply|just|actually|in fact|therefore|the number)[ \t]+)?",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?](?:\s|$)|[;,]\s|\s(?:and|but|because|not|since|so|which)\s")


def answer_spans(text: str) -> list[Span]:
    """Boxes, quotations, what follows `the answer is`, and the last line; at most `MAX_SPANS`."""
    spans = {*_boxes(text), *quotations(text), *_announced(text), *_last_lines(text)}
    return sorted((start, end) for start, end in spans if 0 < end - start <= MAX_SPAN)[:MAX_SPANS]


def _boxes(text: str) -> Iterator[Span]:
    for box in _BOXED.finditer(text):
        depth = 1
        for i in range(box.end(), min(len(text), box.end() + MAX_SPAN + 1)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                yield box.end(), i
                break
        else:
            yield box.end(), len(text)
    for box in _BARE_BOX.finditer(text):
        yield box.span(1)


def quotations(text: str) -> Iterator[Span]:
    """Passages in quotation marks, backticks, dollars or bold."""
    for quotation in _QUOTED.finditer(text):
        yield quotation.span(quotation.lastindex or 0)


def _announced(text: str) -> Iterator[Span]:
    """What follows `the answer is`: up to every place where it could end."""
    for cue in _ANNOUNCED.finditer(text):
        start = cue.end()
        line_end = text.find("\n", start)
        limit = min(len(text) if line_end < 0 else line_end, start + MAX_SPAN)
        for end in (*(m.start() for m in _END.finditer(text, start, limit)), limit):
            yield _stripped(text, start, end)


def _last_lines(text: str) -> Iterator[Span]:
    """The last line, and the last paragraph when it has several lines."""
    last = text.rstrip()
    for mark in ("\n", "\n\n"):
        yield _stripped(text, last.rfind(mark) + len(mark) if mark in last else 0, len(last))


def _stripped(text: str, start: int, end: int) -> Span:
    while start < end and text[start] in " \t\n\"'`*$([{“":
        start += 1
    while end > start and text[end - 1] in " \t\n\"'`*$)]}”.!,;:":
        end -= 1
    return start, end


_DENOMINATORS = (
    "hal",
    "third",
    "quarter",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "tenth",
)
_PARTS = dict(zip(_DENOMINATORS, (2, 3, 4, 4, 5, 6, 7, 8, 10), strict=True))
_NUMBER = re.compile(
    r"(?<![\w.,^/])(?P<minus>(?:minus|negative)\s|-\s?)?(?P<above>\d{1,3}(?:,\d{3}){1,9}|\d{1,40})"
    r"(?P<point>\.\d{1,40})?(?:\s?(?:/|over)\s?(?P<below>\d{1,40})"
    rf"|[\s-](?P<part>{'|'.join(_PARTS)})(?:f|ves|s)?(?![\w-]))?(?![\w^]|[.,/]\d)",
    re.ASCII | re.IGNORECASE,
)
_CUE = re.compile(
    r"(?:\b(?:answer|result|solution|value|total|sum|should|equals?|gets?|gives?|yields?|obtain|exactly|correct|actually"
    r"|final|makes?|leads?|comes?|arrive|replace|become|instead|expected|end\s+up|find|write|turns\s+out|remains?"
    r"|assert|print)\b|[=≈]|\\boxed\s*\{)[^.!?\n]{0,40}$",
    re.IGNORECASE,
)
_IS = re.compile(r"\b(?:is|are|be|was)\s+\$?$", re.IGNORECASE)
_STOP = re.compile(
    r"\s{0,3}\$?\s{0,3}(?:[.!?;,](?:\s|$)|$|(?:and|but)\s+not\b|(?:is|was)\s+(?:right|correct|the)\b|in\s+total\b)"
)
_IS_IT = re.compile(
    r"\s{0,3}\$?\s{0,3}(?:is|was|would\s+be)\s+(?:right|correct|what|the\s+(?:right|correct|answer|result))\b",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:step|line|part|equation|case|row|question|problem|point|item|hint|section)s?\s*\(?$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+")
_DIGIT = re.compile(r"(?<![\w.,])\d(?![\w]|[.,]\d)", re.ASCII)
_CHOICE = re.compile(r"\(?([A-HJ-Z])\)?\.?")
"""A reference that names one of the choices in the question."""
_CHOSEN = (
    r"(?i:\b(?:(?:choose|pick|select)(?:\s+the)?|(?:answer|choice|option|it|that)(?:['’]s|\s+is|\s+(?:should|must)\s+be))"
    r"\s+(?:(?:option|choice|answer|letter)\s+)?)[($*]{0,3}(LETTER)[)$*]{0,3}(?![\w'’-]|\s*[,/]|\s+or\b)"
    r"|(?<!\w)(LETTER)[)$*]{0,3}\s+(?i:is|was)\s+(?i:the\s+)?(?i:right|correct|answer)(?![\w-])"
)
MIN_PLAIN = 3
"""Characters from which on an expression counts wherever it stands."""
_SIGN = re.compile(
    r"\\(?:left|right|cdot|times|[,;!])|\\[dt]?frac|\\[a-zA-Z]+|(?<=\d)\s*pi\b|[^\s{}$*`]"
)
_PLAIN_SIGNS = {
    **dict.fromkeys(("\\left", "\\right", "\\cdot", "\\times", "\\,", "\\;", "\\!", "·"), ""),
    "\\dfrac": "\\frac",
    "\\tfrac": "\\frac",
    "π": "\\pi",
    "pi": "\\pi",
    "√": "\\sqrt",
    "²": "^2",
    "³": "^3",
}
_DRESS = re.compile(r"\\[$!,;:]|\^\s*\{?\s*\\circ\s*\}?|\\?%$")
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")
_UNIT = re.compile(rf"\s*{_WRAPPED.pattern}(?:\s*\^\s*\{{?\s*\d\s*\}}?)?\s*$")


def reference_spans(question: str, reference: str, text: str) -> Iterator[Span]:
    """Passages that say `reference`. A number that the question holds, or a small whole one, counts
    only where a word says that it is the answer.

    Args:
        question: the problem's; its own numbers and expressions tell nothing.
        reference: the answer.
        text: the feedback, as a reading.
    """
    plain = undressed(reference)
    value = as_number(plain)
    if value is not None:
        yield from _numbers(question, value, text)
    elif choice := _CHOICE.fullmatch(plain):
        for chosen in re.finditer(_CHOSEN.replace("LETTER", choice[1]), text):
            yield chosen.span(chosen.lastindex or 0)
    else:
        yield from _expression(question, plain, text)


def undressed(reference: str) -> str:
    r"""A reference without the LaTeX that a sentence leaves out: dollars, degrees, thin spaces, the
    unit behind a number, what words are wrapped in.

    >>> [undressed(r) for r in (r"90^\circ", r"\$18", r"12\text{ cm}", r"\text{Evelyn}")]
    ['90', '18', '12', 'Evelyn']
    """
    plain = _DRESS.sub("", reference).strip()
    number = _UNIT.sub("", plain)
    return number if as_number(number) is not None else _WRAPPED.sub(r"\1", plain).strip()


def _numbers(question: str, wanted: Fraction, text: str) -> Iterator[Span]:
    known = {_value(match) for match in _NUMBER.finditer(spell_digits(question))}
    tells = wanted not in known and (abs(wanted) >= TELLING or wanted.denominator > 1)
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if _value(match) != wanted or _PLACE.search(text[max(0, start - 20) : start].rstrip()):
            continue
        if tells or _is_announced(text, start, end):
            yield start, end
    if tells:  # "the digits are 8 and 1"
        for sentence in _SENTENCE.finditer(text):
            digits = _DIGIT.findall(sentence[0]) if "digit" in sentence[0].lower() else []
            if "".join(digits) == str(wanted):
                yield sentence.span()


def _value(number: re.Match[str]) -> Fraction | None:
    below = Fraction(number["below"] or _PARTS.get((number["part"] or "").lower(), 1))
    above = Fraction(number["above"].replace(",", "") + (number["point"] or ""))
    return (-above if number["minus"] else above) / below if below else None


def _is_announced(text: str, start: int, end: int) -> bool:
    """The words around a number say that it is the answer, or it is all there is on its line."""
    before = text[max(0, start - 80) : start]
    if _IS_IT.match(text, end):
        return True
    if _CUE.search(before) or (_IS.search(before) and _STOP.match(text, end)):
        return True
    line = text[text.rfind("\n", 0, start) + 1 : start] + text[end:].partition("\n")[0]
    return not re.search(r"\w", line)


def _expression(question: str, reference: str, text: str) -> Iterator[Span]:
    """The first copy of the reference, whatever its blanks and layout."""
    wanted, (plain, places) = _plain_math(reference)[0], _plain_math(text)
    if len(wanted) < MIN_PLAIN or wanted in _plain_math(question)[0]:
        return
    forms = (wanted, wanted.upper(), wanted.capitalize()) if wanted.isalpha() else (wanted,)
    at = max(map(plain.find, forms))
    if at >= 0:
        start, end = places[at], places[at + len(wanted) - 1] + 1
        edges = text[max(0, start - 1) : start + 1], text[end - 1 : end + 1]
        if not any(map(_is_inside_a_word, edges)):
            yield start, end


def _is_inside_a_word(two: str) -> bool:
    return len(two) == 2 and two.isascii() and two.isalnum()


def _plain_math(text: str) -> tuple[str, list[int]]:
    """Mathematics without blanks and layout, and where in `text` its characters stand."""
    plain, places = "", []
    for match in _SIGN.finditer(text):
        sign = _PLAIN_SIGNS.get(match[0].strip(), match[0])
        plain += sign
        places += [match.start()] * (len(sign) - 1) + [match.end() - 1] if sign else []
    return plain, places
