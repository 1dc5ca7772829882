"""Numbers in the words of several languages, as tables: from 0 to 100 each, then hundreds and
thousands.

Words are spelled as `plain_text.characters` leaves them: without marks, in lower case.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

LATIN = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv", "ru")
"""Languages whose numbers are words with blanks between them."""

_UNITS = {
    "en": (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen "
        "seventeen eighteen nineteen"
    ),
    "de": (
        "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn "
        "funfzehn sechzehn "
        "siebzehn achtzehn neunzehn"
    ),
    "fr": (
        "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze "
        "quinze seize dix-sept "
        "dix-huit dix-neuf"
    ),
    "es": (
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce "
        "quince dieciseis "
        "diecisiete dieciocho diecinueve"
    ),
    "it": (
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici "
        "quattordici quindici sedici "
        "diciassette diciotto diciannove"
    ),
    "pt": (
        "zero um dois tres quatro cinco seis sete oito nove dez onze doze treze quatorze "
        "quinze dezesseis dezessete "
        "dezoito dezenove"
    ),
    "nl": (
        "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien "
        "vijftien zestien "
        "zeventien achttien negentien"
    ),
    "pl": (
        "zero jeden dwa trzy cztery piec szesc siedem osiem dziewiec dziesiec jedenascie "
        "dwanascie trzynascie "
        "czternascie pietnascie szesnascie siedemnascie osiemnascie dziewietnascie"
    ),
    "sv": (
        "noll ett tva tre fyra fem sex sju atta nio tio elva tolv tretton fjorton femton sexton"
        " sjutton arton nitton"
    ),
    "ru": (
        "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать "
        "тринадцать "
        "четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать"
    ),
}
_TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig funfzig sechzig siebzig achtzig neunzig",
    "fr": "vingt trente quarante cinquante soixante soixante-dix quatre-vingt quatre-vingt-dix",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "it": "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "pt": "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "nl": "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
    "pl": (
        "dwadziescia trzydziesci czterdziesci piecdziesiat szescdziesiat siedemdziesiat "
        "osiemdziesiat "
        "dziewiecdziesiat"
    ),
    "sv": "tjugo trettio fyrtio femtio sextio sjuttio attio nittio",
    "ru": "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
}
_OTHER = {
    "en": {"nought": 0, "naught": 0, "nil": 0, "dozen": 12, "fourty": 40},
    "de": {"ein": 1, "eine": 1, "einen": 1, "zwo": 2, "dreissig": 30},
    "fr": {
        "une": 1,
        "vingt et un": 21,
        "quatre vingts": 80,
        "septante": 70,
        "octante": 80,
        "huitante": 80,
        "nonante": 90,
    },
    "es": {"un": 1, "una": 1, "veintiun": 21},
    "it": {"un": 1, "una": 1},
    "pt": {"uma": 1, "duas": 2, "catorze": 14, "dezasseis": 16, "dezassete": 17, "dezanove": 19},
    "nl": {},
    "pl": {"jedna": 1, "jedno": 1, "dwie": 2},
    "sv": {"en": 1},
    "ru": {"нуль": 0, "одна": 1, "одно": 1, "две": 2},
}
HUNDRED = {
    "en": "hundred",
    "de": "hundert",
    "fr": "cent",
    "es": "ciento",
    "it": "cento",
    "pt": "cento",
    "nl": "honderd",
    "pl": "sto",
    "sv": "hundra",
    "ru": "сто",
}
THOUSAND = {
    "en": "thousand",
    "de": "tausend",
    "fr": "mille",
    "es": "mil",
    "it": "mille",
    "pt": "mil",
    "nl": "duizend",
    "pl": "tysiac",
    "sv": "tusen",
    "ru": "тысяча",
}
_HUNDREDS = {
    "es": (
        "cien doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos"
        " novecientos"
    ),
    "pt": (
        "cem duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos"
    ),
    "pl": "- dwiescie trzysta czterysta piecset szescset siedemset osiemset dziewiecset",
    "ru": "- двести триста четыреста пятьсот шестьсот семьсот восемьсот девятьсот",
}
JOINED = {
    "de": ("hundert", "tausend"),
    "nl": ("honderd", "duizend"),
    "it": ("cento", "mila", "mille"),
    "sv": ("hundra", "tusen"),
}
"""Words that are written together with their neighbours."""
FUNCTION_WORDS = {
    "en": "the is are of and to in you your that it this be not should with for was",
    "de": (
        "der die das ist sind und nicht zu mit von auf dein deine lautet dann ein richtig im sollte"
        " du wert zeile"
    ),
    "fr": (
        "le la les est sont et pas des que reponse vous votre dans du sur donc alors puis il faut"
        " ligne"
    ),
    "es": "el la los es son y no que respuesta del tu en por correcta debe luego fila",
    "it": "il la sono e non che risposta della hai di per corretta deve poi riga",
    "pt": "o a os sao e nao que resposta do sua em por correta deve depois linha",
    "nl": "de het is zijn en niet van antwoord je op een moet dan rij juiste",
    "pl": "jest sa i nie odpowiedz do na w twoja poprawna potem wiersz",
    "sv": "ar och inte svaret det den att av ska sedan raden ratt",
    "ru": "и не в на это ответ правильный должен затем строка",
}
"""Words by which a language is known."""
UNSURE = frozenset(
    [
        "null",
        "nul",
        "die",
        "elf",
        "due",
        "un",
        "une",
        "uno",
        "una",
        "ein",
        "eine",
        "einen",
        "um",
        "uma",
        "een",
        "en",
        "ett",
        "jeden",
        "sei",
        "six",
        "sept",
        "dix",
        "once",
        "dos",
        "tre",
        "sex",
        "nove",
        "otto",
        "sette",
        "cent",
        "cents",
        "mil",
        "mille",
        "sto",
        "ten",
        "cento",
        "cem",
        "cien",
        "jedna",
        "jedno",
        "fem",
        "nio",
        "tio",
        "tva",
        "noll",
        "tres",
        "quinze",
        "trenta",
        "acht",
        "dozen",
    ]
)  # as a list it would be a word a line
"""Number words that mean something else in another of the languages, or are names: read in a text
of theirs only.
"""


@cache
def number_words(language: str) -> dict[tuple[str, ...], int]:
    """Words of a number -> its value, from 0 to 100 and hundreds."""
    return {tuple(words.replace("-", " ").split()): value for words, value in _spelled(language)}


def _spelled(language: str) -> Iterator[tuple[str, int]]:
    units = _UNITS[language].split()
    yield from ((word, value) for value, word in enumerate(units))
    for ten, word in enumerate(_TENS[language].split(), start=2):
        yield word, 10 * ten
        tens = range(1, 20) if language == "fr" and ten in (6, 8) else range(1, 10)
        yield from (
            (both, 10 * ten + unit)
            for unit in tens
            for both in _joined(language, word, units[unit], unit)
        )
    yield from _OTHER[language].items()
    yield from (
        (word, 100 * value)
        for value, word in enumerate(_HUNDREDS.get(language, "").split(), start=1)
        if word != "-"
    )


def _joined(language: str, ten: str, unit: str, value: int) -> Iterator[str]:
    """The ways to write a ten with a unit."""
    if language in ("de", "nl"):
        yield (
            ("ein" if language == "de" and value == 1 else unit)
            + ("und" if language == "de" else "en")
            + ten
        )
    elif language == "it":
        yield (ten[:-1] if value in (1, 8) else ten) + unit
    elif language == "sv":
        yield ten + unit
    elif language in ("es", "pt"):
        yield f"{ten} {'y' if language == 'es' else 'e'} {unit}"
        if ten == "veinte":
            yield f"veinti{unit}"
    elif language == "fr":
        yield f"{ten} {unit}"
        yield f"{ten}s {unit}"
        yield f"{ten} et {unit}"
    else:
        yield f"{ten} {unit}"
