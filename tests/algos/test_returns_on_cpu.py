"""Returns against numbers worked out by hand (RLTF_SPEC 8.1, `hand_2x3`), in lines and in trees."""

from rltf_verl.algos.returns import discounted_returns
from tests.support.hand_cases import HAND, TREES, close, line


def test_discounted_returns_of_the_hand_worked_case():
    close(
        discounted_returns(HAND, 0.1),
        [[1.0, 0.0], [0.1, 1.0], [-0.1, 0.0], [0.1, 1.0], [0.1, 1.0], [-0.01, 0.9]],
    )


def test_discounted_returns_over_three_turns_skip_what_was_not_played():
    episodes = line([[1.0, 2.0, 4.0], [1.0, 2.0], [1.0]])
    close(discounted_returns(episodes, 0.5), [[3.0, 4.0, 4.0], [2.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    close(discounted_returns(episodes, 0.0)[:, 0], [1.0, 1.0, 1.0])
    close(discounted_returns(episodes, 1.0)[:, 0], [7.0, 3.0, 1.0])


def test_an_attempts_return_holds_the_mean_of_its_revisions():
    """Episode 0: leaf 1.0 under 0.0 gives 0.5; beside it 0.5; their mean 0.5, halved, is the
    root's.
    """
    close(
        discounted_returns(TREES, 0.5),
        [
            [0.25, 0.5, 1.0, 0.5, 0.0],
            [0.2 + 0.5 * 0.5, 1.0, 0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ],
    )
    close(discounted_returns(TREES, 1.0)[:, 0], [0.75, 0.7, 1.0])
