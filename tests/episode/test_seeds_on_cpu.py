"""All randomness of an episode comes from where it stands in the run."""

import itertools

from rltf_verl.episode.seeds import place_of, sampling_seed, seeds_of_episode


def test_seeds_depend_on_every_argument_and_on_nothing_else():
    base = {
        "validate": False,
        "step": 3,
        "source": "a",
        "index": 11,
        "session_id": 1,
        "place": place_of(0),
    }
    assert sampling_seed(0, **base) == 7866195932868420555  # no hash salt, no process state
    other = {
        "validate": True,
        "step": 4,
        "source": "b",
        "index": 12,
        "session_id": 2,
        "place": place_of(1),
        "draw": 1,
    }
    changed = [{**base, key: value} for key, value in other.items()]
    seeds = [
        sampling_seed(0, **base),
        sampling_seed(1, **base),
        *(sampling_seed(0, **c) for c in changed),
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**63 for s in seeds)


def test_seeds_do_not_collide_when_digits_move_between_arguments():
    """Names of datasets are free text."""
    sources = ["", "a", "a/1", "a/1/2", 'a", 1', "ä", "\ud83d"]
    seeds = {
        sampling_seed(
            b, validate=False, step=s, source=source, index=i, session_id=n, place=place_of(t)
        )
        for source, b, s, i, n, t in itertools.product(sources, *[[1, 11, 111]] * 5)
    }
    assert len(seeds) == len(sources) * 3**5


def test_concatenated_datasets_share_no_random_numbers_and_no_base_is_base_0():
    where = {"validate": False, "step": 1, "index": 0, "session_id": 0, "pair_sessions": False}
    of = {source: seeds_of_episode(7, source=source, **where) for source in ("gsm8k", "math")}
    assert not {of["gsm8k"](place_of(t)) for t in range(4)} & {
        of["math"](place_of(t)) for t in range(4)
    }
    unset, zero = (seeds_of_episode(base, source="math", **where) for base in (None, 0))
    assert unset("0/feedback") == zero("0/feedback"), "providers still choose by it"


def test_every_sample_of_an_episode_has_a_place_of_its_own():
    places = [place_of(*p) for p in itertools.product([0, 1, 10, 11], ["", "step1", "feedback"])]
    assert len(set(places)) == len(places)
    assert (place_of(2), place_of(2, "feedback")) == ("2", "2/feedback")
