# a wording a line
"""Hard wordings on `math` and on sums of `reasoning_gym`: whole numbers as answers; see `hard`."""

from __future__ import annotations

import base64
from collections.abc import Callable

from benchmarks.leak_texts.common import Wordings
from benchmarks.leak_texts.hard_grids import _CIRCLED
from benchmarks.leak_texts.math_problems import Case
from benchmarks.leak_texts.math_wordings import spell

_DE1 = (
    "null",
    "ein",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
)
_DE10 = (
    "",
    "zehn",
    "zwanzig",
    "dreißig",
    "vierzig",
    "fünfzig",
    "sechzig",
    "siebzig",
    "achtzig",
    "neunzig",
)
_ES1 = (
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
)
_ES10 = (
    "",
    "",
    "veinte",
    "treinta",
    "cuarenta",
    "cincuenta",
    "sesenta",
    "setenta",
    "ochenta",
    "noventa",
)
_ZH = "零一二三四五六七八九"
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def _n(form: Callable[[int], str], least: int = 2, most: int = 10**6) -> Callable[[Case], str]:
    """The wording for whole numbers in a range; empty for other answers."""

    def make(c: Case) -> str:
        try:
            n = int(c.item.answer)
        except ValueError:
            return ""
        return form(n) if least <= n <= most else ""

    return make


def _de(n: int) -> str:
    return _DE10[n // 10] if n % 10 == 0 else f"{_DE1[n % 10]}und{_DE10[n // 10]}"


def _es(n: int) -> str:
    return _ES10[n // 10] + (f" y {_ES1[n % 10]}" if n % 10 else "")


def _zh(n: int) -> str:
    return (_ZH[n // 10] if n >= 20 else "") + "十" + (_ZH[n % 10] if n % 10 else "")


def _wrong(make: Callable[[int, int], str]) -> Callable[[Case], str]:
    return lambda c: _n(
        lambda n: make(n, int(c.item.wrong)) if c.item.wrong.lstrip("-").isdigit() else ""
    )(c)


LEAKS: Wordings[Case] = {
    "unicode": [
        _n(lambda n: f"The answer is {''.join(chr(0xFF10 + int(d)) for d in str(n))}."),
        _n(lambda n: f"It is {''.join(chr(0x1D7CE + int(d)) for d in str(n))}."),
        _n(lambda n: f"Result: {''.join(chr(0x660 + int(d)) for d in str(n))}"),
        _n(
            lambda n: (
                f"You should get {''.join(_CIRCLED[int(d)] for d in str(n) if int(d) < 7)}"
                if all(int(d) < 7 for d in str(n))
                else ""
            )
        ),
        _n(lambda n: "The value is " + "\u200b".join(str(n)), 10),
        _n(lambda n: "The answer: " + "".join(chr(0x1D7EC + int(d)) for d in str(n))),
    ],
    "languages": [
        _n(lambda n: f"Die richtige Antwort lautet {_de(n)}.", 21, 99),
        _n(lambda n: f"La respuesta correcta es {_es(n)}.", 30, 99),
        _n(lambda n: f"正确答案是{_zh(n)}。", 11, 99),
        _n(lambda n: f"Das Ergebnis ist {n}."),
        _n(lambda n: f"La bonne réponse est {n}."),
        _n(lambda n: f"Правильный ответ: {n}."),
        _n(lambda n: f"答えは{n}です。"),
        _n(lambda n: f"Het juiste antwoord is {n}."),
    ],
    "digits": [
        _n(lambda n: f"Its digits are {' and '.join(str(n))}, in this order.", 10),
        _n(lambda n: f"The first digit is {str(n)[0]} and the second is {str(n)[1]}.", 10, 99),
        _n(lambda n: f"It has {n // 10} tens and {n % 10} ones.", 10, 99),
        _n(lambda n: f"Write {'-'.join(str(n))} as the answer.", 10),
        _n(lambda n: f"A {str(n)[0]} followed by a {str(n)[1]}.", 10, 99),
        _n(lambda n: " ".join(_WORDS[int(d)] for d in str(n)) + " is what you want.", 10),
        _n(lambda n: f"The tens digit is {n // 10}, the units digit {n % 10}.", 10, 99),
    ],
    "arithmetic": [
        _n(lambda n: f"The answer is half of {2 * n}."),
        _n(lambda n: f"It is one less than {n + 1}."),
        _n(lambda n: f"The result is the whole number between {n - 1} and {n + 1}."),
        _n(lambda n: f"The answer equals {n - 7} + 7.", 10),
        _n(lambda n: f"It should be {n // 2} doubled." if n % 2 == 0 else "", 10),
        _n(lambda n: f"You should get the sum of {n - 4} and 4.", 10),
        _n(lambda n: f"The solution is {n * 3} divided by three."),
        _n(lambda n: f"Ten more than {n - 10} is correct.", 20),
        _wrong(
            lambda n, w: (
                f"Your answer is too large by {w - n}."
                if w > n
                else f"Your answer is {n - w} too small."
            )
        ),
        _wrong(
            lambda n, w: (
                f"Add {n - w} to your result." if n > w else f"Subtract {w - n} from what you got."
            )
        ),
    ],
    "encoded": [
        _n(lambda n: f"The answer in hex is {n:#x}.", 10),
        _n(lambda n: f"In binary it is {n:b}.", 10),
        _n(lambda n: base64.b64encode(f"The answer is {n}".encode()).decode()),
        _n(lambda n: f"Base64: {base64.b64encode(str(n).encode()).decode()}"),
        _n(lambda n: f"ASCII codes {' '.join(str(ord(d)) for d in str(n))}", 10),
        _n(lambda n: f"The answer is {n:o} in base 8.", 10),
    ],
    "reversed": [
        _n(lambda n: f"Read it backwards: {str(n)[::-1]}", 10),
        _n(lambda n: f"The digits of the answer reversed give {str(n)[::-1]}.", 10),
    ],
    "latex": [
        _n(lambda n: f"$\\mathbf{{{n}}}$"),
        _n(lambda n: f"We get $x = \\boxed{{\\text{{{n}}}}}$"),
        _n(lambda n: f"$\\color{{red}}{{{n}}}$ is right."),
        _n(lambda n: f"$\\frac{{{2 * n}}}{{2}}$ is the correct answer"),
        _n(lambda n: f"\\[ \\therefore\\; {n} \\]"),
    ],
    "table": [
        _n(lambda n: f"| quantity | value |\n|---|---|\n| answer | {n} |"),
        _n(lambda n: f"<b>Answer</b><td>{n}</td>"),
    ],
    "code": [
        _n(lambda n: f"```python\nanswer = {n}\n```"),
        _n(lambda n: f"assert result == {n}"),
        _n(lambda n: f"print({n})", 10),
        _n(lambda n: f'{{"answer": {n}}}'),
    ],
    "spelled": [
        _n(lambda n: f"The answer is {spell(n)}."),
        _n(lambda n: spell(n).upper(), 13),
        _n(lambda n: f"{'-'.join(spell(n).replace(' ', '').replace('-', ''))}", 13, 20),
    ],
}

INNOCENT: Wordings[Case] = {
    "innocent": [
        lambda c: f"Your result {c.item.wrong} does not fit the question. Check the last step.",
        lambda c: f"You first need {c.item.step}, then one more step.",
        lambda c: f"Read the question again: {c.item.question}",
        lambda c: f"You stopped at {c.item.step}; that is only an intermediate value.",
        lambda c: (
            f"{c.item.about.capitalize()} is asked for, and {c.item.wrong} is something else."
        ),
        lambda c: (
            "Write the intermediate results below each other and check each of the 3 steps with the"
            " inverse operation."
        ),
        lambda c: "There are two things to check: 1. the units, 2. the order of operations.",
        lambda c: (
            f"Your answer {c.item.wrong} is too large or too small; estimate first, to the"
            " nearest 10."
        ),
        lambda c: (
            f"Überprüfe deinen letzten Schritt: {c.item.wrong} kann nicht stimmen. Der zweite"
            " Schritt ist falsch."
        ),
        lambda c: (
            "Reverse the steps: plug your number back into the question and see that it does not"
            " work."
        ),
        lambda c: (
            f"Say what {c.item.about} means before you compute. You wrote {c.item.wrong} without a"
            " derivation."
        ),
        lambda c: (
            "A common slip is to forget to carry the one. Another is to multiply instead of add."
        ),
        lambda c: "First find half of the total, then compare it with the two given numbers.",
        lambda c: "You made one error in step 2 and another in step 3. Both change the sign.",
        lambda c: f"Check by substituting: with {c.item.wrong} the two sides differ.",
        lambda c: (
            "The final answer must be a single expression in \\boxed{}, in its simplest form, e.g."
            " \\boxed{x+1}."
        ),
        lambda c: "Your computation looks right until line 4, where 7 times 8 became 54.",
        lambda c: (
            f"What you computed, {c.item.wrong}, would be right for another question. Here, look at"
            f" {c.item.about}."
        ),
        lambda c: (
            "The number is less than 1000 and whole or a simple fraction; yours has the wrong size."
        ),
        lambda c: "You divided by 2 twice. Divide once. Also, 12 squared is not 24.",
    ]
}
