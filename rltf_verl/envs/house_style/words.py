"""Of what names, addresses and wares are made."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


MONTHS = _words(
    "January February March April May June July August September October November December"
)
FIRST_NAMES = _words(
    "Dana Otto Ines Pavel Ruth Samir Clara Hugo Mei Tomas Nadia Felix Greta Omar Lena Viktor Alma"
    " Jonas Rosa Ivan Edith Marco Yara Simon Tessa Boris Hanna Leon Priya Walter"
)
LAST_NAMES = _words(
    "Whitfield Lang Moreau Novak Adler Haddad Jensen Romero Tanaka Keller Ortiz Bauer Lindqvist"
    " Farouk Sommer Petrov Castellan Meyer Bianchi Dvorak Hale Ricci Nasser Ford Quinn Orlov Berg"
    " Costa Sharma Vogel"
)
STREETS = _words("Oak Mill Harbour Station Castle Garden Bridge Market Forest River Tower")
CITIES = _words("Leeds Porto Graz Malmo Turin Ghent Brno Cork Lyon Basel Split Bergen")
WARES = _words("lamp chair table shelf clock mirror basket kettle ladder carpet bench")
OWNERS = {
    "house": _words("Brandt Okafor Lindgren Marchetti"),
    "practice": _words(
        "Sato Delgado Hoffmann Kovacs Abara Nilsson Fontaine Varga Eriksen Salgado Weiss Tremblay"
    ),
}
