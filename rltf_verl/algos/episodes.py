"""The episodes of a batch as they were played, all of them in a few tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rltf_verl.algos.shapes import require_shape


@dataclass(frozen=True)
class EpisodeBatch:
    """S episodes of up to M turns each; turn m revises turn m − 1."""

    rewards: torch.Tensor
    """[S, M] r, ignored where not valid."""
    correct: torch.Tensor
    """[S, M] bool: the verifier's verdict."""
    valid: torch.Tensor
    """[S, M] bool, True where there is a turn, from the left."""
    group: torch.Tensor
    """[S] int64 group of each episode, 0..G−1."""
    graded: torch.Tensor = None  # type: ignore[assignment]
    """[S, M] R(x_0, y): rewards before shaping; left out, they are the rewards."""
    cut: torch.Tensor = None  # type: ignore[assignment]
    """[S, M] bool: turns that nothing follows for a technical reason (`types.TECHNICAL_STOPS`);
    left out, none.
    """
    ungraded: torch.Tensor = None  # type: ignore[assignment]
    """[S, M] bool: turns without a verdict (`advantages.with_neutral_rewards`); left out, none."""
    has_teacher: torch.Tensor = None  # type: ignore[assignment]
    """[S, M] bool: turns whose attempt has a teacher; left out, none."""

    def __post_init__(self) -> None:
        s, m = self.rewards.shape
        nowhere = torch.zeros_like(self.valid)
        flags = ("cut", "ungraded", "has_teacher")
        for name, default in (("graded", self.rewards), *((flag, nowhere) for flag in flags)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        for name in ("valid", "correct", "graded", *flags):
            require_shape(**{name: (getattr(self, name), (s, m))})
        require_shape(group=(self.group, (s,)))

    @property
    def num_groups(self) -> int:
        """G."""
        return int(self.group.max()) + 1 if self.group.numel() else 0


def in_line(rewards: torch.Tensor, valid: torch.Tensor, group: torch.Tensor) -> EpisodeBatch:
    """Episodes whose rewards are R(x_0, y), of which nothing was cut; a reward above one half is of
    a right answer.

    Args:
        rewards: [S, M] reward of each turn.
        valid: [S, M] bool, the turns that were played, from the left.
        group: [S] int64.
    """
    return EpisodeBatch(rewards, rewards > 0.5, valid, group)


def is_revised(episodes: EpisodeBatch) -> torch.Tensor:
    """[S, M] bool: another turn follows this one."""
    return next_turn(episodes.valid)


def next_turn(values: torch.Tensor) -> torch.Tensor:
    """[S, M] each turn's value is that of the turn after it; False or 0 for the last column."""
    return torch.nn.functional.pad(values[:, 1:], (0, 1))


def cohorts(episodes: EpisodeBatch) -> torch.Tensor:
    """[S, M] int64 cohort of each turn: turns of the same number, of the same group, which are
    compared with each other.
    """
    num_turns = episodes.valid.shape[1]
    return episodes.group.unsqueeze(1) * num_turns + torch.arange(num_turns)


def cohort_sums(
    values: torch.Tensor, cohort: torch.Tensor, members: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of the values of each turn's cohort, and how many there are; [S, M] float64 each.

    In double precision, so that the order of episodes does not matter.

    Args:
        values: [S, M].
        cohort: [S, M] number of the cohort of each turn.
        members: [S, M] bool: turns that count in their cohort.
    """
    require_shape(cohort=(cohort, tuple(values.shape)), members=(members, tuple(values.shape)))
    weight, kept = members.double(), torch.where(members, values, 0.0).double()
    sums, counts = (torch.bincount(cohort.reshape(-1), w.reshape(-1)) for w in (kept, weight))
    return sums[cohort], counts[cohort]


def cohort_mean(values: torch.Tensor, cohort: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
    """[S, M] mean of the members of each turn's cohort, 0 where a cohort is empty; arguments as
    `cohort_sums`.
    """
    sums, counts = cohort_sums(values, cohort, members)
    return (sums / counts.clamp(min=1)).to(values.dtype)


def joined_cohort(episodes: EpisodeBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """[S, M] each: the group as one cohort, and which turns are in it (bool): its first attempts
    and its refined answers.

    A refined answer is the last of two or more turns; answers between are compared with them, but
    move no mean.
    """
    members = episodes.valid & ~is_revised(episodes)
    members[:, 0] = episodes.valid[:, 0]
    return episodes.group.unsqueeze(1).expand(members.shape), members
