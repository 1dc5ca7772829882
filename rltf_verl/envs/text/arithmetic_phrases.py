r"""Numbers that a text has its reader work out: `half of 168`, `one less than 85`, `6·7×2`, `0x54`.

Each phrase is a row `(example, pattern, value)`; the text is one with digits for number words
(`number_reading`).

>>> from rltf_verl.envs.text.plain_text import as_written
>>> worked_out(as_written("It is half of 168, or 1 less than 85.")).text
'It is 84, or 84.'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from rltf_verl.envs.text.plain_text import View

MAX_DIGITS = 9
"""Of a number that is worked with."""
MAX_EXPONENT = 20

_N = rf"-?\d{{1,{MAX_DIGITS}}}(?:\.\d{{1,6}})?"
_NUMBERS = re.compile(_N, re.ASCII)
_THE = r"(?:the\s+)?"
_OF = r"\s+(?:of|von|de|di|van)\s+(?:the\s+number\s+)?"
_AND = r"\s*(?:and|und|et|y|e|en|with|from|,)\s+"
_PARTS = {
    "half": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "tenth": 10,
    "halfte": 2,
    "moitie": 2,
    "mitad": 2,
    "meta": 2,
    "metade": 2,
    "helft": 2,
}
_TIMES: dict[str, Fraction | int | None] = {
    "twice": 2,
    "double": 2,
    "thrice": 3,
    "triple": 3,
    "treble": 3,
    "quadruple": 4,
    "doubled": 2,
    "tripled": 3,
    "halved": Fraction(1, 2),
    "squared": None,
    "doppelte": 2,
    "double de": 2,
    "doble": 2,
    "doppio": 2,
    "dobro": 2,
    "dubbele": 2,
    "verdoppelt": 2,
}

Numbers = list[Fraction]


def _product(numbers: Numbers) -> Fraction:
    return numbers[0] * numbers[1]


def _quotient(numbers: Numbers) -> Fraction | None:
    return numbers[0] / numbers[1] if numbers[1] else None


def _between(numbers: Numbers) -> Fraction | None:
    low, high = sorted(numbers[:2])
    return low + 1 if high - low == 2 else None


def _power(numbers: Numbers) -> Fraction | None:
    base, exponent = numbers[0], numbers[1]
    if exponent.denominator > 1 or not 0 <= exponent <= MAX_EXPONENT or abs(base) > 1000:
        return None
    return base ** int(exponent)


def _root(numbers: Numbers) -> Fraction | None:
    value = numbers[0]
    root = round(float(value) ** 0.5) if 0 <= value < 10**MAX_DIGITS else -1
    return Fraction(root) if root >= 0 and root * root == value else None


Value = Callable[[Numbers], Fraction | None]
PHRASES: tuple[tuple[str, str, Value], ...] = (
    (
        "1 less than 85",
        rf"{_N}\s+(?:less|fewer|smaller|lower|below|under|before)\s+(?:than\s+)?{_N}",
        lambda x: x[1] - x[0],
    ),
    ("2 short of 86", rf"{_N}\s+short\s+of\s+{_N}", lambda x: x[1] - x[0]),
    (
        "1 more than 83",
        rf"{_N}\s+(?:more|greater|larger|bigger|higher|above|over|after|past)\s+(?:than\s+)?{_N}",
        lambda x: x[1] + x[0],
    ),
    (
        "80 plus 4",
        rf"{_N}\s+(?:plus|added\s+to|increased\s+by|mas|mais|piu)\s+{_N}",
        lambda x: x[0] + x[1],
    ),
    (
        "90 minus 6",
        rf"{_N}\s+(?:minus|take\s+away|decreased\s+by|reduced\s+by|moins|menos|meno|min)\s+{_N}",
        lambda x: x[0] - x[1],
    ),
    (
        "6 subtracted from 90",
        rf"{_N}\s+(?:subtracted|taken)\s+(?:away\s+)?from\s+{_N}",
        lambda x: x[1] - x[0],
    ),
    (
        "7 times 12",
        rf"{_N}\s+(?:times|multiplied\s+by|mal|fois|por|per|volte|vezes|keer|x)\s+{_N}",
        _product,
    ),
    (
        "168 divided by 2",
        rf"{_N}\s+(?:divided\s+by|geteilt\s+durch|divise\s+par|dividido\s+(?:por|entre)|over)\s+{_N}",
        _quotient,
    ),
    (
        "sum of 80 and 4",
        rf"\b(?:sum|total|summe|somme|suma|somma|soma|som){_OF}{_N}{_AND}{_N}",
        lambda x: x[0] + x[1],
    ),
    (
        "difference between 90 and 6",
        rf"\b(?:difference|differenz|diferencia)\s+(?:of|between|zwischen|entre)\s+{_N}{_AND}{_N}",
        lambda x: abs(x[0] - x[1]),
    ),
    (
        "product of 7 and 12",
        rf"\b(?:product|produkt|produit|producto|prodotto|produto){_OF}{_N}{_AND}{_N}",
        _product,
    ),
    ("quotient of 168 and 2", rf"\b(?:quotient|ratio){_OF}{_N}{_AND}{_N}", _quotient),
    (
        "average of 83 and 85",
        rf"\b(?:average|mean|midpoint|mittelwert|moyenne|media){_OF}{_N}{_AND}{_N}",
        lambda x: (x[0] + x[1]) / 2,
    ),
    (
        "halfway between 80 and 88",
        rf"\b(?:half-?\s?way|midway|exactly|in\s+the\s+middle)\s+between\s+{_N}{_AND}{_N}",
        lambda x: (x[0] + x[1]) / 2,
    ),
    (
        "between 83 and 85",
        rf"\b(?:between|zwischen|entre|tra|fra|tussen|miedzy|mellan)\s+{_N}{_AND}{_N}",
        _between,
    ),
    (
        "square root of 49",
        rf"\b(?:square\s+root|root|quadratwurzel|racine\s+carree){_OF}{_N}",
        _root,
    ),
    ("12 squared", rf"{_N}\s*(?:squared|quadrat|au\s+carre|al\s+cuadrado)\b", lambda x: x[0] ** 2),
    ("square of 12", rf"\bsquare{_OF}{_N}", lambda x: x[0] ** 2),
    ("4 cubed", rf"{_N}\s+cubed\b", lambda x: x[0] ** 3),
    ("cube of 4", rf"\bcube{_OF}{_N}", lambda x: x[0] ** 3),
    (
        "2 to the power of 6",
        rf"{_N}\s+(?:raised\s+)?to\s+the\s+(?:power\s+(?:of\s+)?)?{_N}(?:st|nd|rd|th)?(?:\s+power)?",
        _power,
    ),
    (
        "successor of 83",
        rf"\b(?:successor|number\s+(?:right\s+|just\s+|directly\s+)?(?:after|following|above)|"
        rf"nachfolger|successeur|sucesor)\s*(?:of|to|von|de)?\s+{_N}",
        lambda x: x[0] + 1,
    ),
    (
        "predecessor of 85",
        rf"\b(?:predecessor|number\s+(?:right\s+|just\s+|directly\s+)?(?:before|preceding|below)|"
        rf"vorganger|predecesseur|predecesor)\s*(?:of|to|von|de)?\s+{_N}",
        lambda x: x[0] - 1,
    ),
    (
        "just after 83",
        rf"\b(?:just|right|directly|immediately)\s+(?:after|above)\s+{_N}",
        lambda x: x[0] + 1,
    ),
    (
        "just before 85",
        rf"\b(?:comes\s+)?(?:just|right|directly|immediately)\s+(?:before|below)\s+{_N}",
        lambda x: x[0] - 1,
    ),
    ("7 dozen", rf"{_N}\s+(?:dozen|dutzend|douzaines|docenas)\b", lambda x: 12 * x[0]),
)
_PHRASES = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), value) for _, pattern, value in PHRASES
)
_PART = re.compile(
    rf"\b(?:a\s+|one\s+|1\s+|la\s+)?({'|'.join(_PARTS)}){_OF}({_N})", re.IGNORECASE | re.ASCII
)
_MULTIPLE = re.compile(
    rf"\b({'|'.join(_TIMES)})(?:{_OF}|\s+)({_N})|({_N})\s+({'|'.join(_TIMES)})\b",
    re.IGNORECASE | re.ASCII,
)
_LITERAL = re.compile(r"(?<!\w)0(?:x[0-9a-f]{1,8}|b[01]{1,32}|o[0-7]{1,10})(?!\w)", re.IGNORECASE)
_IN_BASE = re.compile(
    r"(?<!\w)(?:binary|hex(?:adecimal)?|octal|binar|binaire|binario)\W{1,3}(?P<a>[0-9a-f]{1,32})(?!\w)"
    r"|(?<!\w)(?P<b>[0-9a-f]{1,32})\s+(?:in\s+|\()?(?P<kind>binary|hex(?:adecimal)?|octal)\b"
    r"|(?<!\w)\(?(?P<c>[0-9a-f]{1,32})\)?(?:_\{?|\s+(?:in\s+)?\(?base\s+)(?P<base>\d{1,2})",
    re.IGNORECASE | re.ASCII,
)
_EXPRESSION = re.compile(
    rf"(?<![\w.^/)]){_N}(?:\s*(?:[-+*/×·x÷:^]|\*\*|\\times|\\cdot|\\div)\s*{_N}){{1,8}}(?![\w^(/]|\.\d)",
    re.ASCII,
)
_STEP = re.compile(r"\s*(\*\*|[-+*/×·x÷:^]|\\times|\\cdot|\\div)\s*", re.ASCII)


def worked_out(view: View) -> View:
    """The view with their values in place of phrases and literals."""
    view = view.sub(_LITERAL, lambda found: str(int(found[0], 0)))
    view = view.sub(_IN_BASE, _from_base)
    for pattern, value in _PHRASES:
        view = view.sub(pattern, partial(_valued, value))
    view = view.sub(
        _PART, lambda found: _shown(found[0], Fraction(found[2]) / _PARTS[found[1].lower()])
    )
    return view.sub(_MULTIPLE, _multiple)


def expressions(text: str) -> Iterator[tuple[int, int, Fraction]]:
    """Sums and products in signs, with their values."""
    for found in _EXPRESSION.finditer(text):
        value = _evaluated(found[0])
        if value is not None:
            yield *found.span(), value


def _valued(value: Value, found: re.Match[str]) -> str:
    return _shown(found[0], value(_numbers(found[0])))


def _numbers(text: str) -> Numbers:
    return [Fraction(number) for number in _NUMBERS.findall(text)]


def _multiple(found: re.Match[str]) -> str:
    factor, number = _TIMES[(found[1] or found[4]).lower()], Fraction(found[2] or found[3])
    return _shown(found[0], number**2 if factor is None else number * factor)


def _shown(phrase: str, value: Fraction | None) -> str:
    if value is None or max(value.numerator, -value.numerator, value.denominator) > 10**12:
        return phrase
    return str(value)


def _from_base(found: re.Match[str]) -> str:
    digits = found["a"] or found["b"] or found["c"]
    kind = (found["kind"] or found[0][:3]).lower()[:3]
    base = int(found["base"]) if found["base"] else {"bin": 2, "hex": 16, "oct": 8}[kind]
    try:
        return str(int(digits, base)) if 2 <= base <= 36 and base != 10 else found[0]
    except ValueError:
        return found[0]


def _evaluated(expression: str) -> Fraction | None:
    """By the usual precedence: powers, products, sums."""
    first = re.match(_N, expression, re.ASCII)
    if first is None:
        return None
    terms, place, sign = [Fraction(first[0])], first.end(), ""
    while place < len(expression):
        step = _STEP.match(expression, place)
        number = step and re.compile(_N, re.ASCII).match(expression, step.end())
        if not step or not number:
            return None
        sign, value, place = step[1], Fraction(number[0]), number.end()
        if sign in ("+", "-"):
            terms.append(value if sign == "+" else -value)
        elif sign in ("^", "**"):
            raised = _power([terms[-1], value])
            if raised is None:
                return None
            terms[-1] = raised
        elif sign in ("/", "÷", ":", "\\div"):
            if not value:
                return None
            terms[-1] /= value
        else:
            terms[-1] *= value
    return sum(terms, Fraction(0))
