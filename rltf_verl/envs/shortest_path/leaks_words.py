"""Directions and the lack of a path in several languages and signs, as the leak guard reads them.

Words are spelled as `plain_text.characters` leaves them: without marks.
"""

from __future__ import annotations

_WORDS = {
    "R": (
        "right east rechts droite derecha destra direita prawo leste oost вправо направо 右 東"
        " 오른쪽 동쪽"
    ),
    "D": (
        "down south runter unten abwarts hinunter bas abajo giu basso baixo omlaag beneden dol "
        "nedat sud sur zuid вниз "
        "下 南 아래 남쪽"
    ),
    "L": (
        "left west links gauche izquierda sinistra esquerda lewo ouest oeste ovest влево налево 左"
        " 西 왼쪽 서쪽"
    ),
    "U": (
        "up north hoch oben rauf aufwarts hinauf haut arriba cima acima omhoog boven uppat nord "
        "norte noord вверх наверх "
        "上 北 위 북쪽"
    ),
}
_SIGNS = {"R": "→➡⇒⟶👉▶►", "D": "↓⬇⇓👇▼🔽", "L": "←⬅⇐⟵👈◀◄", "U": "↑⬆⇑👆▲🔼"}
MOVE_OF = {word: move for move, words in _WORDS.items() for word in words.split()}
SIGN_OF = {sign: move for move, signs in _SIGNS.items() for sign in signs}
COMPASS_OF = {"N": "U", "E": "R", "S": "D", "W": "L"}
TYPED_OF = {">": "R", "v": "D", "V": "D", "<": "L", "^": "U"}
NO_WAY = (
    r"\b(?:kein(?:en)?\s+(?:\w+\s+)?(?:weg|pfad)|unmoglich|unerreichbar|nicht\s+(?:losbar|"
    r"erreichbar)|"
    r"(?:pas\s+de|aucun)\s+chemin|inaccessible|(?:no\s+hay|ningun)\s+(?:un\s+)?(?:camino|ruta)|"
    r"imposible|inalcanzable|"
    r"nessun\s+percorso|impossibile|irraggiungibile|(?:nao\s+ha|nenhum)\s+caminho|impossivel|"
    r"geen\s+(?:pad|weg|route)|"
    r"onmogelijk|niemozliwe|nie\s+ma\s+(?:sciezki|drogi)|нет\s+пути|невозможно|недостижим\w*)\b|"
    r"没有路|沒有路|无路|无法到达|無法到達|不可能|経路は存在しない|経路はない|到達できない|"
    r"경로가 없|불가능"
)
