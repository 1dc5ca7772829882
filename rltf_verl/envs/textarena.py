"""Single-player games of textarena that need no network (`pip install textarena`)."""

from __future__ import annotations

from typing import Annotated, Any

from rltf_verl.envs.gym_text import GymText
from rltf_verl.kinds import Within
from rltf_verl.registry import require_choice, require_package
from rltf_verl.texts import split_words

GAMES = split_words(
    "TowerOfHanoi 2048 Blackjack Countdown Crosswords Cryptarithm FifteenPuzzle "
    "FrozenLake GuessTheNumber LightsOut LogicPuzzle Mastermind Minesweeper PegJump RushHour "
    "Secretary Slitherlink Sudoku ThreeCardMonte"
)
"""Games of version 0.7.4 that neither load data nor ask a model. Bandit pays for the worst choice,
and Set 20 for a game."""
PLAYER = 0


class TextArena(GymText):
    """The environment `textarena`. The score is the game's reward, from 0 to 1.

    Args:
        game: one of `GAMES`.
        correct_from: least score of a right attempt.
        steps: most moves.
        observation_tokens: most tokens of an observation.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "textarena"

    def __init__(
        self,
        game: str = "Minesweeper",
        correct_from: float = 1.0,
        steps: Annotated[int, Within(1, 10_000)] = 16,
        observation_tokens: Annotated[int, Within(1, 1_000_000)] = 1024,
    ) -> None:
        require_choice("rltf.env.game", game, GAMES)
        require_package("textarena", "textarena", "'rltf-verl[textarena]'")
        super().__init__(
            "rltf_verl.envs.textarena:RawGame",
            {"game": game},
            correct_from=correct_from,
            steps=steps,
            observation_tokens=observation_tokens,
            global_random=True,  # textarena seeds the module
        )


class RawGame:
    """A game in Gymnasium's shape, which shows what is new and not everything again."""

    def __init__(self, game: str) -> None:
        import textarena

        self._game = textarena.make(f"{game}-v0-raw")

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        """Once: a second time, the game would show its rules twice."""
        self._game.reset(num_players=1, seed=seed)
        return self._news(), {}

    def step(self, text: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """A move; at the end the reward, with feedback on an invalid move."""
        done, _ = self._game.step(text)
        if not done:
            return self._news(), 0.0, False, False, {}
        # A game tells its reward only when it is closed.
        rewards, infos = self._game.close()
        reward = (rewards or {}).get(PLAYER)
        # After an invalid move, four games of 0.7.4 have the reason in the reward's place.
        reward = reward if isinstance(reward, float | int) else 0.0
        # Why a game was lost may be what the next attempt, with the same seed, has to find.
        reason = str(infos[PLAYER]["reason"]) if infos[PLAYER]["invalid_move"] else ""
        return reason, float(reward), True, False, {"feedback": reason}

    def _news(self) -> str:
        messages = self._game.get_observation()[1]
        return "\n".join(str(text) for sender, text, _ in messages if sender != PLAYER)
