"""What all tests share: how much is tried.

Property tests have no deadline, since a busy machine is no finding. `--hypothesis-profile=nightly`
tries as much as each test asks for (`tests/support/effort.py`).
"""

from hypothesis import settings

settings.register_profile("nightly", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile("quick")
