"""RLTF_SPEC 8.1 (`hand_2x3`) as rows and batches."""

import asyncio

from rltf_verl.algos.pack import pack_episodes, pack_rows
from rltf_verl.config import DistillConfig, RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import Attempt, Episode, Grade, Problem, Role, Turn

# (rewards, sampler log-probs of each turn, log-probs of the last answer under the first prompt)
SESSIONS = [
    ([1.0], [(-0.5, -0.25)], None),
    ([0.0, 1.0], [(-0.7, -0.3, -0.1), (-0.2, -0.4, -0.6, -0.1)], (-1.0, -6.0, -5.0, -0.3)),
    ([-0.1, 0.0], [(-1.1, -0.9), (-0.3, -0.8)], (-2.0, -5.5)),
    ([0.0, 1.0], [(-0.2, -0.2), (-0.5, -0.5, -0.5)], (-0.9, -4.999, -5.001)),
    ([0.0, 1.0], [(-0.6,), (-0.1,)], (-7.0,)),
    ([-0.1, 0.9], [(-0.4, -1.4), (-0.05, -2.0)], (-0.2, -0.3)),
]
GROUP = [0, 0, 0, 1, 1, 1]


def config(**distill):
    """The paper's RLTF-SD, or what is changed in its `distill` block."""
    return RLTFConfig(distill=DistillConfig(**{"weight": 0.1, **distill}))


def batch(
    settings=None, sessions=SESSIONS, group=GROUP, order=None, graded=lambda reward: reward > 0.5
):
    """The rows of the objectives that have a weight."""
    episodes, rows, row_episode, old = [], [], [], []
    for s, (rewards, sampler, student) in enumerate(sessions):
        turns = tuple(
            Turn(
                Attempt((s, k), tuple(range(len(lp))), lp, "", True),
                Grade(graded(r), True),
                r,
                parent=k - 1 if k else None,
            )
            for k, (r, lp) in enumerate(zip(rewards, sampler, strict=True))
        )
        episodes.append(Episode(Problem("x", 0, {}, ""), s, turns))
        for row in asyncio.run(episode_rows(None, [], episodes[-1], Method(settings or config()))):
            rows.append(row)
            row_episode.append(s)
            old.append(row.log_probs if row.role[0] == Role.ATTEMPT else student)
    order = range(len(rows)) if order is None else order
    rows, row_episode, old = ([values[i] for i in order] for values in (rows, row_episode, old))
    return pack_rows(rows, row_episode, pack_episodes(episodes, group), old)


def of_role(packed, values, role):
    """Values of the rows of one role, its tokens only."""
    rows = zip(packed.by_row(values), packed.by_row(packed.tokens(role)), strict=True)
    return [own[mask].tolist() for own, mask in rows if mask.any()]
