"""How much is tried: little in every run, all of it with `--hypothesis-profile=nightly`."""

from __future__ import annotations

from hypothesis import settings

NIGHTLY = settings.get_current_profile_name() == "nightly"


def examples(num: int) -> settings:
    """For a property test: `num` examples nightly, at most the profile's otherwise."""
    return settings(max_examples=num if NIGHTLY else min(num, settings().max_examples))


def many(num: int) -> int:
    """`num` nightly, a twentieth otherwise."""
    return num if NIGHTLY else num // 20
