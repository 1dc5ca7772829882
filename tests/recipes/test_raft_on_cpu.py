"""RAFT with feedback: right answers, first or revised, and nothing else."""

from rltf_verl.types import Role
from tests.recipes.seeds import play


def test_every_right_answer_is_imitated_behind_the_first_prompt_and_no_wrong_one(config) -> None:
    episodes = play(config, [["yes"], ["no", "yes"], ["no", "ne"]])
    imitated = [
        (s, "".join(map(chr, row.response_ids[:-1]))) for s, row in episodes.rows_of(Role.IMITATE)
    ]
    assert imitated == [(0, "yes"), (1, "yes")]
    assert episodes.advantages(Role.IMITATE) == [(0, 1.0), (1, 1.0)]
    first = episodes.episodes[0].turns[0].attempt.prompt_ids
    assert all(row.prompt_ids == first for _, row in episodes.rows_of(Role.IMITATE))
    assert {value for _, value in episodes.advantages(Role.ATTEMPT)} == {0.0}, "not reinforced"
    assert (episodes.targets.advantages >= 0).all()
    assert {row.role[0] for row in episodes.rows} == {Role.ATTEMPT, Role.IMITATE}
