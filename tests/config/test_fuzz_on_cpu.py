"""Random blocks: each is accepted, or refused in one line that names the key
(`tests/support/fuzz_config.py`).
"""

import pytest

from rltf_verl.kinds import Within
from tests.support import fuzz_config
from tests.support.effort import many


def test_every_block_runs_or_is_refused_in_one_line_and_no_nonsense_is_accepted():
    num = many(1000)
    faults, num_nonsense = fuzz_config.fuzz(fuzz_config.composed(), num, seed=0)
    assert not faults, "\n".join(faults[:20])
    assert 0.3 < num_nonsense / num < 0.95, "both kinds were tried"


def test_every_key_is_fuzzed():
    names = {str(key) for key in fuzz_config.all_keys()}
    assert {
        "rltf.gamma",
        "rltf.env.name",
        "rltf.env.n_max",
        "rltf.feedback.provider",
        "rltf.feedback.guard.judge",
        "rltf.feedback.endpoint.extra_body",
        "rltf.feedback.limits.max_attempts",
        "rltf.distill.weight",
        "rltf.feedback.reference",
        "rltf.env.test_paths",
        "rltf.feedback.guard.regenerations",
    } <= names
    assert (
        sum(isinstance(mark, Within) for key in fuzz_config.all_keys() for mark in _marks(key.hint))
        > 40
    )


def _marks(hint):
    for part in getattr(hint, "__args__", ()):
        yield from _marks(part)
    yield from getattr(hint, "__metadata__", ())


@pytest.mark.parametrize(
    ("value", "hint", "outside"),
    [
        (float("inf"), float, True),
        (1e30, float, True),
        (True, float, True),
        (2, float, False),
        ("2", int, True),
        ("false", bool, True),
        (1, bool, True),
        ("a\nb", str, True),
        ("a", str, False),
        (None, str | None, False),
        (["a", 1], tuple[str, ...], True),
        ({}, str, True),
    ],
)
def test_what_the_fuzzer_calls_nonsense(value, hint, outside):
    assert fuzz_config.lies_outside(value, hint) is outside
