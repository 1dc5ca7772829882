"""How much is tried: little in every run, all of it with `--hypothesis-profile=nightly`."""

from hypothesis import settings

NIGHTLY = settings.get_current_profile_name() == "nightly"


def examples(num: int, quick: int | None = None) -> settings:
    """For a property test: `num` examples nightly; otherwise `quick`, at most the profile's."""
    few = min(num if quick is None else quick, settings().max_examples)
    return settings(max_examples=num if NIGHTLY else few)


def many(num: int) -> int:
    """`num` nightly, a twentieth otherwise."""
    return num if NIGHTLY else num // 20
