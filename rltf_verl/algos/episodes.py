"""The episodes of a batch as they were played: branches or trees of turns, all of them in a few
tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from rltf_verl.algos.shapes import require_shape


@dataclass(frozen=True)
class EpisodeBatch:
    """S episodes of up to M turns each. In a branch, turn m revises turn m − 1; in a tree, an
    earlier one.
    """

    rewards: torch.Tensor
    """[S, M] r, ignored where not valid."""
    correct: torch.Tensor
    """[S, M] bool: the verifier's verdict."""
    valid: torch.Tensor
    """[S, M] bool, True where there is a turn."""
    parent: torch.Tensor
    """[S, M] int64: the turn that turn m revises, below m; −1 for a first turn."""
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
        for name in ("valid", "correct", "parent", "graded", *flags):
            require_shape(**{name: (getattr(self, name), (s, m))})
        require_shape(group=(self.group, (s,)))

    @property
    def num_groups(self) -> int:
        """G."""
        return int(self.group.max()) + 1 if self.group.numel() else 0


def in_line(
    rewards: torch.Tensor,
    valid: torch.Tensor,
    group: torch.Tensor,
    correct: torch.Tensor | None = None,
) -> EpisodeBatch:
    """Episodes without branches.

    Args:
        rewards: [S, K] reward of each turn.
        valid: [S, K] bool, the turns that were played, from the left.
        group: [S] int64.
        correct: [S, K] bool; None is "reward above one half".
    """
    # −1, 0, 1, …: each turn revises the one before it.
    parent = torch.arange(-1, rewards.shape[1] - 1).expand(rewards.shape)
    return EpisodeBatch(
        rewards, rewards > 0.5 if correct is None else correct, valid, parent, group
    )


def by_graded_rewards(episodes: EpisodeBatch) -> EpisodeBatch:
    """The same episodes, rewarded by R(x_0, y) alone: what an answer is worth to the first
    prompt.
    """
    return replace(episodes, rewards=episodes.graded)


def depth(episodes: EpisodeBatch) -> torch.Tensor:
    """[S, M] int64: 0-based number of the turn in its branch (0 where not valid)."""
    depths = torch.zeros_like(episodes.parent)
    for m in range(1, depths.shape[1]):  # parents stand before their children
        # [S, 1] depth of the parents. A parent of −1 reads place 0, and the next line drops it.
        above = depths.gather(1, episodes.parent[:, m : m + 1].clamp(min=0)).squeeze(1)
        depths[:, m] = torch.where(episodes.parent[:, m] >= 0, above + 1, 0)
    return torch.where(episodes.valid, depths, 0)


def num_revisions(episodes: EpisodeBatch) -> torch.Tensor:
    """[S, M] int64: how many turns revise this one."""
    has_parent = episodes.valid & (episodes.parent >= 0)
    # First turns have no parent: they add 0 to place 0.
    return torch.zeros_like(episodes.parent).scatter_add_(
        1, episodes.parent.clamp(min=0), has_parent.long()
    )


@dataclass(frozen=True)
class Cohorts:
    """Which turns are compared with each other."""

    label: torch.Tensor
    """[S, M] int64 cohort of each turn, 0..C−1."""
    num_labels: int
    """C."""
    branches: torch.Tensor
    """[S, M] int64: branches that could have reached this turn, whether or not they did: the
    group's episodes, or the revisions of the attempt at which the tree branched."""


def cohorts(episodes: EpisodeBatch) -> Cohorts:
    """Turns of the same number, of the same group; below a branch, of the same branched attempt.

    So every turn is compared with its siblings: the group's other episodes at the same turn, or, in
    a tree, the other revisions of the attempt that they share.
    """
    num_episodes, num_turns = episodes.valid.shape
    group_size = torch.bincount(episodes.group, minlength=episodes.num_groups)
    anchor = episodes.group.unsqueeze(1).repeat(1, num_turns)
    branches = group_size[episodes.group].unsqueeze(1).repeat(1, num_turns)
    num_anchors = episodes.num_groups
    children = num_revisions(episodes)
    if bool((children > 1).any()):
        _anchor_below_branches(episodes, children, anchor, branches)
        num_anchors += num_episodes * num_turns
    # Anchor and depth (0..M−1) as one number.
    return Cohorts(anchor * num_turns + depth(episodes), num_anchors * num_turns, branches)


def cohort_sums(
    values: torch.Tensor, where: Cohorts, valid: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of the values of each turn's cohort, and how many there are; [S, M] float64 each.

    In double precision, so that the order of episodes does not matter.
    """
    require_shape(label=(where.label, tuple(values.shape)), valid=(valid, tuple(values.shape)))
    label, weight = where.label.reshape(-1), valid.reshape(-1).double()
    sums = torch.zeros(where.num_labels, dtype=torch.float64)
    # Before `sums` is filled: here it is all zeros.
    counts = sums.clone().index_add_(0, label, weight)
    sums.index_add_(0, label, torch.where(valid, values, 0.0).reshape(-1).double())
    return sums[where.label], counts[where.label]


def cohort_mean(values: torch.Tensor, where: Cohorts, members: torch.Tensor) -> torch.Tensor:
    """[S, M] mean of the members of each turn's cohort, 0 where a cohort is empty; arguments as
    `cohort_sums`.
    """
    sums, counts = cohort_sums(values, where, members)
    return (sums / counts.clamp(min=1)).to(values.dtype)


def joined_cohort(episodes: EpisodeBatch) -> tuple[Cohorts, torch.Tensor]:
    """The group as one cohort, and [S, M] bool, which turns are in it: its first attempts and its
    refined answers.

    A refined answer is the last turn of a branch of two or more; what stands between is
    compared with them, but moves no mean.
    """
    num_turns = episodes.valid.shape[1]
    size = torch.bincount(episodes.group, minlength=episodes.num_groups)[episodes.group]
    label, branches = (each.unsqueeze(1).repeat(1, num_turns) for each in (episodes.group, size))
    is_first = episodes.parent < 0
    members = episodes.valid & (is_first | (num_revisions(episodes) == 0))
    return Cohorts(label, episodes.num_groups, branches), members


def _anchor_below_branches(
    episodes: EpisodeBatch, children: torch.Tensor, anchor: torch.Tensor, branches: torch.Tensor
) -> None:
    """Below an attempt with several revisions, turns have that attempt in common and not the group;
    in place.
    """
    row, num_turns = torch.arange(episodes.valid.shape[0]), episodes.valid.shape[1]
    for m in range(1, num_turns):  # parents stand before their children
        up, follows = episodes.parent[:, m].clamp(min=0), episodes.parent[:, m] >= 0
        branched = children[row, up] > 1
        # Further below, a turn takes over its parent's anchor, which an earlier column has set.
        # Numbers of branched attempts follow those of the groups: one for each (episode, turn).
        own_anchor = torch.where(
            branched, episodes.num_groups + row * num_turns + up, anchor[row, up]
        )
        own_branches = torch.where(branched, children[row, up], branches[row, up])
        anchor[:, m] = torch.where(follows, own_anchor, anchor[:, m])
        branches[:, m] = torch.where(follows, own_branches, branches[:, m])
