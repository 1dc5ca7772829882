"""Cases worked out by hand: RLTF_SPEC 8.1 (`hand_2x3`)."""

import torch

from rltf_verl.algos.episodes import EpisodeBatch, in_line


def line(rewards: list[list[float]], group: list[int] | None = None) -> EpisodeBatch:
    """Episodes of any lengths."""
    longest = max(map(len, rewards))
    valid = torch.tensor([[k < len(r) for k in range(longest)] for r in rewards])
    padded = torch.tensor([[*r, *([0.0] * (longest - len(r)))] for r in rewards])
    return in_line(padded, valid, torch.tensor(group or [0] * len(rewards)))


def close(actual: torch.Tensor, expected: object, tol: float = 1e-6) -> None:
    torch.testing.assert_close(
        torch.as_tensor(actual).double(), torch.tensor(expected).double(), atol=tol, rtol=0
    )


# Two groups of three episodes; the first episode of group 0 stopped early.
HAND = line(
    [[1.0], [0.0, 1.0], [-0.1, 0.0], [0.0, 1.0], [0.0, 1.0], [-0.1, 0.9]], [0, 0, 0, 1, 1, 1]
)
SECOND = [1, 2, 3, 4, 5]
"""Episodes with a second turn."""
