r"""Spans where a text may state an answer, for environments without a finder of their own.

`answer_spans` are the usual places of answers: the grader decides. `reference_spans` are the
reference itself, if it is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from rltf_verl.envs.text.boxed import WRAPPED
from rltf_verl.envs.text.number_words import LATEX_FRACTION, as_number, spell_digits

Span = tuple[int, int]

MAX_SPAN = 400
"""Longest passage that is taken for an answer."""
MAX_SPANS = 100
"""Passages of one text that are looked at."""
MOST_WORDS = 6
"""Words before `is the answer` that may be it."""
TELLING = 10
"""From here on a number, and any fraction, tells the answer anywhere."""

_BOXED = re.compile(r"\\boxed\s*\{")
# `"…"`, `“…”`, `«…»`, backticks, `'…'` (but no apostrophe), `$…$`, `**…**`, `\(…\)`, `\[…\]`
_QUOTED = re.compile(
    r"\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)|\$([^$\n]+)\$"
    r"|\*\*([^*\n]+)\*\*|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]"
)
# `the answer is exactly`, `result:`, `total =`, `it should be`, `the right label is`, `Expected:`,
# `not 5 but`, `change 5 to`, `→`
_NAMES = r"(?:answer|result|solution|root|value|total|sum|outcome|option|choice)s?\b"
_ANNOUNCED = re.compile(
    rf"(?:\b{_NAMES}[^.\n:=]{{0,40}}?"
    r"(?:\bis\b|\bare\b|\bequals\b|\bbe\b|:|=)"
    r"|\b(?:should|must)\s+(?:be|have\s(?:been|answered|picked|chosen|said|written))\b"
    r"|\b(?:right|correct|expected|intended)(?:\s\w+){0,2}?(?:\sis\b|\sare\b|\swas\b|:)"
    r"|\bnot\s[^.\n]{1,60}?\sbut\b|\b(?:change|replace|correct)\s[^.\n]{1,60}?\s(?:to|by|with)\b"
    r"|→|[-=]>)[ \t]*"
    r"(?:(?:exactly|simply|just|actually|in fact|therefore|the number)[ \t]+)?",
    re.IGNORECASE,
)
# `… is the correct answer`, `… is correct`, `…, not 5`, and where the text before it may begin
_CONCLUDED = re.compile(
    rf"\s(?:is|are|was|were)\s(?!not\b)(?:(?:\w+\s){{0,3}}{_NAMES}|correct\b|right\b)"
    r"|,\snot\s|,?\s(?:rather\sthan|instead\sof)\s",
    re.IGNORECASE,
)
_IS_RIGHT = re.compile(r"(?:correct|right)\Z", re.IGNORECASE)
_BEGIN = re.compile(r"[.!?;:,]\s|\s")
# Possible ends of the announced: a sentence, a clause, or a word that continues with prose.
_END = re.compile(r"[.!?](?:\s|$)|[;,]\s|\s(?:and|but|because|not|since|so|which)\s|\s[(\[]")


def answer_spans(text: str) -> list[Span]:
    """Boxes, quotations and what equations in them end with, the text beside `the answer is` or
    `is the answer`, and the last line; at most `MAX_SPANS`.
    """
    finders = (_boxes, quotations, _right_sides, _announcements, _conclusions, _last_lines)
    spans = {span for find in finders for span in find(text)}
    return sorted((start, end) for start, end in spans if 0 < end - start <= MAX_SPAN)[:MAX_SPANS]


def is_place(passage: str) -> bool:
    """Its one number says where: "Step 2: check the sign", "2. Check the sum"."""
    return _ONLY_PLACE.fullmatch(passage) is not None


def _boxes(text: str) -> Iterator[Span]:
    for box in _BOXED.finditer(text):
        depth = 1
        for i in range(box.end(), min(len(text), box.end() + MAX_SPAN + 1)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                yield box.end(), i
                break
        else:
            # Never closed: the box is the rest of the text.
            yield box.end(), len(text)


def quotations(text: str) -> Iterator[Span]:
    """Passages in quotation marks, backticks, dollars or bold."""
    for quotation in _QUOTED.finditer(text):
        yield quotation.span(quotation.lastindex or 0)


def _right_sides(text: str) -> Iterator[Span]:
    """Text after the last `=` of a quotation."""
    for start, end in quotations(text):
        sign = text.rfind("=", start, end)
        side = _strip(text, sign + 1, end)
        # many steps end with a digit
        if sign >= 0 and side[1] - side[0] > 1:
            yield side


def _announcements(text: str) -> Iterator[Span]:
    """Text after `the answer is`: up to every place where it could end."""
    for cue in _ANNOUNCED.finditer(text):
        start = cue.end()
        line_end = text.find("\n", start)
        limit = min(len(text) if line_end < 0 else line_end, start + MAX_SPAN)
        for end in (*(m.start() for m in _END.finditer(text, start, limit)), limit):
            yield _strip(text, start, end)


def _conclusions(text: str) -> Iterator[Span]:
    """Text before `is the answer`: the last few words, or fewer."""
    for cue in _CONCLUDED.finditer(text):
        line = max(text.rfind("\n", 0, cue.start()) + 1, cue.start() - MAX_SPAN)
        begins = [line]
        for gap in _BEGIN.finditer(text, line, cue.start()):
            # words of an earlier sentence do not count
            begins = [gap.end()] if gap[0][0] in ".!?" else [*begins, gap.end()]
        for begin in begins[-MOST_WORDS:]:
            span = _strip(text, begin, cue.start())
            # "3 is correct" may be said of a step, "C is correct" of an option
            said_of_step = _IS_RIGHT.search(cue[0]) and _ANY_DIGIT.search(
                spell_digits(text[slice(*span)])
            )
            place = _PLACE.search(text[max(line, begin - 20) : begin].rstrip())
            if not (said_of_step or place):
                yield span


def _last_lines(text: str) -> Iterator[Span]:
    """The last line, and the last paragraph when it has several lines."""
    last = text.rstrip()
    for mark in ("\n", "\n\n"):
        yield _strip(text, last.rfind(mark) + len(mark) if mark in last else 0, len(last))


def _strip(text: str, start: int, end: int) -> Span:
    while start < end and text[start] in " \t\n\"'`*$([{“":
        start += 1
    while end > start and text[end - 1] in " \t\n\"'`*$)]}”.!,;:":
        end -= 1
    return start, end


# `1,234.5`, `minus 3`, `- 3`, `3/4`, `3 over 4`, `2 1/2`
_NUMBER = re.compile(
    r"(?<![\w.,^/])(?:(?:minus|negative)\s|-\s?)?(?:\d{1,15}\s(?=\d{1,15}/))?"
    r"(?:\d{1,3}(?:,\d{3}){1,9}|\d{1,40})(?:\.\d{1,40})?(?:\s?(?:/|over)\s?\d{1,40})?"
    r"(?![\w^]|[.,/]\d)",
    re.ASCII | re.IGNORECASE,
)
_LATEX_NUMBER = re.compile(rf"(?:-\s?)?(?:\d{{1,15}}\s?)?{LATEX_FRACTION.pattern}")
# `step 2`, `line (3)`: this number says where.
_PLACES = r"\b(?:step|line|part|equation|case|row|question|problem|point|item|hint|section)s?\s*\(?"
_PLACE = re.compile(rf"{_PLACES}$", re.IGNORECASE)
_ONLY_PLACE = re.compile(
    rf"\D*{_PLACES}\s*\d{{1,4}}\D*|\W*\d{{1,4}}[.):\]]+\s\D*[a-z]\D*", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^.!?\n]+")
_ANY_DIGIT = re.compile(r"\d")
_DIGIT = re.compile(r"(?<![\w.,])\d(?![\w]|[.,]\d)", re.ASCII)
# `\$`, thin spaces, `^\circ`, `%` at the end
_DRESS = re.compile(r"\\[$!,;:]|\^\s*\{?\s*\\circ\s*\}?|\\?%$")
# `\text{ cm}^2`, ` m/s`, ` empty seats`
_UNIT = re.compile(
    rf"\s*{WRAPPED.pattern}(?:\s*\^\s*\{{?\s*\d\s*\}}?)?\s*$|(?:\s[^\W\d_][^\s\d]{{0,12}}){{1,2}}$"
)


def reference_spans(question: str, reference: str, text: str) -> Iterator[Span]:
    """Spans of the number that `reference` is. A number of the question and a small whole one tell
    nothing: `answer_spans` holds those given as an answer.

    Args:
        question: the problem's.
        reference: the answer.
        text: the feedback, as a reading.
    """
    wanted = as_number(undressed(reference))
    if wanted is None:
        return
    if (abs(wanted) < TELLING and wanted.denominator == 1) or wanted in numbers_in(question):
        return
    for value, (start, end) in _numbers(text):
        if value == wanted and not _PLACE.search(text[max(0, start - 20) : start].rstrip()):
            yield start, end
    for sentence in _SENTENCE.finditer(text):  # "the digits are 8 and 1"
        digits = _DIGIT.findall(sentence[0]) if "digit" in sentence[0].lower() else []
        if "".join(digits) == str(wanted):
            yield sentence.span()


@lru_cache(maxsize=64)  # the same question has many attempts
def numbers_in(text: str) -> frozenset[Fraction]:
    """The numbers of a text, also those in words."""
    return frozenset(value for value, _ in _numbers(spell_digits(text)))


def _numbers(text: str) -> Iterator[tuple[Fraction, Span]]:
    """Each number in digits, and its span."""
    for pattern in (_NUMBER, _LATEX_NUMBER):
        for match in pattern.finditer(text):
            if (value := as_number(match[0])) is not None:
                yield value, match.span()


def undressed(reference: str) -> str:
    r"""A reference without the LaTeX that a sentence leaves out: dollars, degrees, thin spaces, the
    unit behind a number, what words are wrapped in.

    >>> [undressed(r) for r in (r"90^\circ", r"\$18", r"12\text{ cm}", "9.6 m/s", r"\text{Evelyn}")]
    ['90', '18', '12', '9.6', 'Evelyn']
    """
    plain = _DRESS.sub("", reference).strip()
    number = _UNIT.sub("", plain)
    return number if as_number(number) is not None else WRAPPED.sub(r"\1", plain).strip()
