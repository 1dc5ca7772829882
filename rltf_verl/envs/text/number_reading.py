"""Numbers in words, whatever the language, as digits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from rltf_verl.envs.text.number_languages import (
    FUNCTION_WORDS,
    HUNDRED,
    JOINED,
    LATIN,
    THOUSAND,
    UNSURE,
    number_words,
)
from rltf_verl.envs.text.plain_text import View

MAX_WORDS = 5
"""Words of the longest number below a hundred, and its marks."""
_WORD = re.compile(r"[^\W\d_]+")
_AND = frozenset(("and", "und", "et", "y", "e", "en"))
_HAN_DIGITS = (
    "零〇",
    "一壹",
    "二两貳贰",
    "三叁參",
    "四肆",
    "五伍",
    "六陆陸",
    "七柒",
    "八捌",
    "九玖",
)
_HAN = {sign: value for value, signs in enumerate(_HAN_DIGITS) for sign in signs}
_HAN_RUN = re.compile("[零〇一壹二两貳贰三叁參四肆五伍六陆陸七柒八捌九玖十拾百佰千]+")
_KANA = {
    "ゼロ": 0,
    "れい": 0,
    "いち": 1,
    "さん": 3,
    "よん": 4,
    "ろく": 6,
    "なな": 7,
    "しち": 7,
    "はち": 8,
    "きゅう": 9,
}
_HANGUL = {
    "영": 0,
    "공": 0,
    "일": 1,
    "이": 2,
    "삼": 3,
    "사": 4,
    "오": 5,
    "육": 6,
    "칠": 7,
    "팔": 8,
    "구": 9,
}
_HANGUL_RUN = re.compile(
    r"(?<![가-힣])[영공일이삼사오육칠팔구십백천]+(?=입니다|이다|이고|예요|이에요|이며|이어|은|는|가|을|를|로|[^가-힣]|$)"
)
_HANGUL_SIGNS = str.maketrans("영공일이삼사오육칠팔구십백천", "零零一二三四五六七八九十百千")
_KANA_RUN = re.compile("|".join(_KANA))
_GAP = re.compile(r"(?:\s+|-|\s*-\s*)")


def with_digits(view: View) -> View:
    """The view with digits for numbers in words, for the languages that the text is written in."""
    view = view.replaced(_in_words(view.text))
    if view.text.isascii():
        return view
    view = view.sub(_HAN_RUN, lambda found: han_number(found[0]))
    view = view.sub(_KANA_RUN, lambda found: str(_KANA[found[0]]))
    return view.sub(_HANGUL_RUN, lambda found: han_number(found[0].translate(_HANGUL_SIGNS)))


def han_number(signs: str) -> str:
    """Chinese signs as digits: with tens and hundreds a number, else digit by digit.

    >>> han_number("八十四"), han_number("一〇一")
    ('84', '101')
    """
    if not set("十拾百佰千") & set(signs):
        return "".join(str(_HAN[sign]) for sign in signs)
    total, unit = 0, 0
    for sign in signs:
        size = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000}.get(sign)
        if size is None:
            unit = _HAN[sign]
        else:
            total, unit = total + (unit or 1) * size, 0
    return str(total + unit)


def _in_words(text: str) -> Iterator[tuple[int, int, str]]:
    words = list(_split(text))
    spelled = [word for word, _, _ in words]
    known = _languages(spelled)
    i = 0
    while i < len(words):
        value, used = _number_at(text, words, i, known)
        if used:
            yield words[i][1], words[i + used - 1][2], str(value)
        i += used or 1


def _split(text: str) -> Iterator[tuple[str, int, int]]:
    """Words in lower case with their places; `zweihundertdrei` is three."""
    for found in _WORD.finditer(text):
        word, start = found[0].lower(), found.start()
        if len(word) == len(found[0]) and (parts := _JOINED_WORD.split(word)) and _is_number(parts):
            for part in filter(None, parts):
                yield part, start, start + len(part)
                start += len(part)
        else:
            yield word, start, found.end()


_JOINED_WORD = re.compile(f"({'|'.join(word for words in JOINED.values() for word in words)})")


def _is_number(parts: Sequence[str]) -> bool:
    return len(parts) > 1 and all(part in _all_words() for part in parts if part)


@cache
def _all_words() -> frozenset[str]:
    one = {words[0] for language in LATIN for words in number_words(language) if len(words) == 1}
    return frozenset(one | {word for words in JOINED.values() for word in words} | {"ein", "und"})


@cache
def _first_words() -> dict[str, tuple[str, ...]]:
    """First word of a number -> the languages that it may be of."""
    firsts: dict[str, list[str]] = {}
    for language in LATIN:
        for words in (
            *number_words(language),
            (HUNDRED[language],),
            (THOUSAND[language],),
            ("mila",),
        ):
            if language not in firsts.setdefault(words[0], []):
                firsts[words[0]].append(language)
    return {word: tuple(languages) for word, languages in firsts.items()}


def _languages(words: Sequence[str]) -> tuple[str, ...]:
    """The language that the text is written in, then those with two different number words in
    it.
    """
    some = set(words)
    hits = {
        language: len(some.intersection(FUNCTION_WORDS[language].split())) for language in LATIN
    }
    firsts = _first_words()
    sure = [language for word in some - UNSURE for language in firsts.get(word, ())]
    hits = {language: num + sure.count(language) for language, num in hits.items()}
    best = max(LATIN, key=lambda language: hits[language])
    return (best if hits[best] else "en", *(x for x in LATIN if sure.count(x) > 1 and x != best))


def _number_at(
    text: str, words: Sequence[tuple[str, int, int]], i: int, known: Sequence[str]
) -> tuple[int, int]:
    """The number that begins at a word, and how many words it has; (0, 0) if none does."""
    word = words[i][0]
    languages = _first_words().get(word, ())
    # A number follows its neighbours' language: an unsure word is read only in a text of its own.
    for language in (
        *(x for x in known if x in languages),
        *(languages if word not in UNSURE else ()),
    ):
        value, used = _compound(text, words, i, language)
        if used:
            return value, used
    return 0, 0


def _compound(
    text: str, words: Sequence[tuple[str, int, int]], i: int, language: str
) -> tuple[int, int]:
    total = part = used = 0
    seen = False
    while i + used < len(words) and (not used or _near(text, words, i + used)):
        word = words[i + used][0]
        if seen and word in _AND and i + used + 1 < len(words) and part % 100 == 0 and part + total:
            value, more = _below_hundred(text, words, i + used + 1, language)
            if more and value < 100:
                return total + part + value, used + 1 + more
            break
        value, more = _below_hundred(text, words, i + used, language)
        if word.removesuffix("s") == HUNDRED[language] and part < 10:
            part, more = (part or 1) * 100, 1
        elif word in (THOUSAND[language], "mila") and not total:
            total, part, more = (part or 1) * 1000, 0, 1
        elif more and part % 100 == 0 and (part or not seen or total) and (value < 100 or not part):
            part += value
        else:
            break
        used, seen = used + more, True
    return total + part, used


def _below_hundred(
    text: str, words: Sequence[tuple[str, int, int]], i: int, language: str
) -> tuple[int, int]:
    numbers = number_words(language)
    spelled = [words[i][0]]
    while (
        len(spelled) < MAX_WORDS
        and i + len(spelled) < len(words)
        and _near(text, words, i + len(spelled))
    ):
        spelled.append(words[i + len(spelled)][0])
    for used in range(len(spelled), 0, -1):
        value = numbers.get(tuple(spelled[:used]))
        if value is not None:
            return value, used
    return 0, 0


def _near(text: str, words: Sequence[tuple[str, int, int]], i: int) -> bool:
    start, end = words[i - 1][2], words[i][1]
    return start == end or (end - start < 4 and _GAP.fullmatch(text, start, end) is not None)
