"""All randomness of a session comes from where it stands in the run."""

import itertools

from rltf_verl.episode.seeds import place_of, sampling_seed


def test_seeds_depend_on_every_argument_and_on_nothing_else():
    base = {"validate": False, "step": 3, "index": 11, "session_id": 1, "place": place_of(0)}
    assert sampling_seed(0, **base) == 4942664479632736321  # no hash salt, no process state
    changed = [{**base, key: value} for key, value in
               {"validate": True, "step": 4, "index": 12, "session_id": 2, "place": place_of(1)}.items()]  # fmt: skip
    seeds = [sampling_seed(0, **base), sampling_seed(1, **base), *(sampling_seed(0, **c) for c in changed)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**63 for s in seeds)


def test_seeds_do_not_collide_when_digits_move_between_arguments():
    values = [1, 11, 111]
    seeds = {
        sampling_seed(b, validate=False, step=s, index=i, session_id=n, place=place_of(t))
        for b, s, i, n, t in itertools.product(values, repeat=5)
    }
    assert len(seeds) == 3**5


def test_every_sample_of_a_session_has_a_place_of_its_own():
    places = [place_of(*p) for p in itertools.product([0, 1, 10, 11], [0, 1, 10], ["", "feedback"])]
    assert len(set(places)) == len(places)
    assert (place_of(2), place_of(2, 1), place_of(2, 1, "feedback")) == ("2", "2.1", "2.1/feedback")
