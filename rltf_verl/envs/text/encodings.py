"""What a text says in code: base64, hexadecimal, character codes, shifted letters, Morse, back to
front.

`decoded` gives passages with their plain text. Each row of `CODES` is
`(example, its plain text, …)`.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from urllib.parse import unquote

MAX_PIECES = 16
"""Passages of a text that are decoded."""
MAX_PIECE = 600
"""Longest of them."""

_MORSE = {
    ".-": "a",
    "-...": "b",
    "-.-.": "c",
    "-..": "d",
    ".": "e",
    "..-.": "f",
    "--.": "g",
    "....": "h",
    "..": "i",
    ".---": "j",
    "-.-": "k",
    ".-..": "l",
    "--": "m",
    "-.": "n",
    "---": "o",
    ".--.": "p",
    "--.-": "q",
    ".-.": "r",
    "...": "s",
    "-": "t",
    "..-": "u",
    "...-": "v",
    ".--": "w",
    "-..-": "x",
    "-.--": "y",
    "--..": "z",
    "-----": "0",
    ".----": "1",
    "..---": "2",
    "...--": "3",
    "....-": "4",
    ".....": "5",
    "-....": "6",
    "--...": "7",
    "---..": "8",
    "----.": "9",
}
_ATBASH = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA",
)


def _base64(piece: str) -> str:
    return _readable(base64.b64decode(piece + "=" * (-len(piece) % 4), validate=True))


def _hex(piece: str) -> str:
    return _readable(bytes.fromhex(re.sub(r"0x|\\x|[\s,:]", "", piece)))


def _bits(piece: str) -> str:
    return _readable(bytes(int(bits, 2) for bits in piece.split()))


def _codes(piece: str) -> str:
    return _readable(bytes(int(code) for code in re.findall(r"\d+", piece)))


def _morse(piece: str) -> str:
    plain = piece.replace("·", ".").replace("−", "-").replace("–", "-").replace("—", "-")
    return " ".join(
        "".join(_MORSE.get(sign, "?") for sign in word.split())
        for word in re.split(r"\s*[/|]\s*", plain)
    )


def _escaped(piece: str) -> str:
    return re.sub(
        r"\\u\{?([0-9a-fA-F]{1,6})\}?|\\x([0-9a-fA-F]{2})",
        lambda m: _character(m[1] or m[2]),
        piece,
    )


def _character(digits: str) -> str:
    code = int(digits, 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else ""


def _positions(piece: str) -> str:
    return "".join(
        chr(96 + int(number)) for number in re.findall(r"\d+", piece) if 1 <= int(number) <= 26
    )


def _readable(data: bytes) -> str:
    text = data.decode("ascii")
    return text if all(c.isprintable() or c.isspace() for c in text) else ""


Decode = Callable[[str], str]
CODES: tuple[tuple[str, str, str, str, Decode], ...] = (
    # example, its plain text, a word of which one must be in the text (empty: none), the passages,
    # how they are read
    ("ODQ=", "84", "", r"(?<![\w+/=])[A-Za-z0-9+/]{2,400}={1,2}(?![\w=])", _base64),
    (
        "cmlnaHQsIGRvd24s",
        "right, down,",
        "",
        r"(?<![\w+/=])[A-Za-z0-9+/]{12,600}(?![\w=])",
        _base64,
    ),
    (
        "base64 ODQx",
        "841",
        r"base\W?64|encod|decod",
        r"(?<![\w+/=])[A-Za-z0-9+/]{4,600}(?![\w=])",
        _base64,
    ),
    (
        "hex 38 34",
        "84",
        r"\bhex|ascii|byte|encod|decod|utf",
        r"(?<!\w)(?:0x|\\x)?[0-9a-fA-F]{2}(?:[\s,:]{0,2}(?:0x|\\x)?[0-9a-fA-F]{2}){0,190}(?!\w)",
        _hex,
    ),
    ("bytes 00111000 00110100", "84", "", r"(?<!\w)[01]{8}(?:\s+[01]{8}){0,60}(?!\w)", _bits),
    (
        "ASCII 56, 52",
        "84",
        r"ascii|char(?:acter)?\W?codes?|code\W?points?|chr\b|unicode",
        r"(?<!\w)\d{2,3}(?:[\s,;-]{1,3}\d{2,3}){0,190}(?!\w)",
        _codes,
    ),
    ("%38%34", "84", "", r"(?:%[0-9a-fA-F]{2}){1,200}", unquote),
    (r"\u0038\u0034", "84", "", r"(?:\\u\{?[0-9a-fA-F]{1,6}\}?|\\x[0-9a-fA-F]{2}){1,99}", _escaped),
    (
        "Morse ---.. ....-",
        "84",
        r"mors|dots? and dash",
        r"(?<![\w.])[.·−–—-]{1,5}(?:[\s/|]{1,3}[.·−–—-]{1,5}){0,120}",
        _morse,
    ),
    (
        "letters by position 8, 9",
        "hi",
        r"position|alphabet|a\s?=\s?1|a1z26",
        r"(?<!\w)\d{1,2}(?:[\s,;-]{1,3}\d{1,2}){1,60}(?!\w)",
        _positions,
    ),
    (
        "rot13: evtug",
        "right",
        r"rot\W?13|rotated? by 13|caesar|cipher",
        r"[A-Za-z][^\n]{0,400}",
        lambda piece: codecs.decode(piece, "rot13"),
    ),
    (
        "atbash: irtsg",
        "right",
        r"atbash|a ?(?:<->|↔) ?z",
        r"[A-Za-z][^\n]{0,400}",
        lambda piece: piece.translate(_ATBASH),
    ),
)
_CODES = tuple(
    (re.compile(word, re.IGNORECASE) if word else None, re.compile(piece), decode)
    for _, _, word, piece, decode in CODES
)
_SHIFT = re.compile(r"\b(?:rot\W?|shift\w*\s(?:\w+\s){0,4}?(?:by\s)?)(\d{1,2})\b", re.IGNORECASE)
_LINE = re.compile(r"[A-Za-z][^\n]{0,400}")
BACKWARDS = re.compile(
    r"back\s*-?wards?\b|back to front|revers|right[\s-]to[\s-]left|mirror|from the"
    r" (?:end|right|last)|last to first|"
    r"ruckwarts|umgekehrt|a l'envers|a rebours|al reves|al contrario|de"
    r" tras|achterstevoren|wspak|наоборот|"
    r"逆|反|倒|거꾸로|end to (?:start|beginning)|bottom to top|upside",
    re.IGNORECASE,
)
_BACKWARDS_PIECE = re.compile(
    r"\"([^\"\n]{1,300})\"|“([^”\n]{1,300})”|`([^`\n]{1,300})`|([^\s\"`:]{2,60})|:["
    r" \t]*([^\n]{2,400})"
)


def decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, plain text) of every passage in code, at most `MAX_PIECES`."""
    yield from islice(_decoded(text), MAX_PIECES)


def backwards(text: str) -> Iterator[tuple[int, int, str]]:
    """Passages read from their end, if the text speaks of it."""
    if BACKWARDS.search(text):
        pieces = (found.span(found.lastindex or 0) for found in _BACKWARDS_PIECE.finditer(text))
        lines = (found.span(1) for found in re.finditer(r":[ \t]*([^\n]{2,400})", text))
        for start, end in islice((*lines, *pieces), 4 * MAX_PIECES):
            yield start, end, text[start:end].rstrip(" .,;!")[::-1]


def _decoded(text: str) -> Iterator[tuple[int, int, str]]:
    for word, passage, decode in _CODES:
        if word is None or word.search(text):
            yield from _read(text, passage, decode)
    for shift in islice(_SHIFT.finditer(text), 2):
        for by in (int(shift[1]), -int(shift[1])):
            yield from _read(text, _LINE, partial(_shifted, by))


def _read(text: str, passage: re.Pattern[str], decode: Decode) -> Iterator[tuple[int, int, str]]:
    for found in islice(passage.finditer(text), MAX_PIECES):
        try:
            plain = decode(found[0])
        except (ValueError, binascii.Error):
            continue
        if plain.strip() and plain != found[0] and len(plain) <= MAX_PIECE:
            yield *found.span(), plain


def _shifted(by: int, text: str) -> str:
    def shift(character: str) -> str:
        first = 97 if character.islower() else 65
        return chr((ord(character) - first + by) % 26 + first)

    return "".join(shift(c) if c.isascii() and c.isalpha() else c for c in text)
