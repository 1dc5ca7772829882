"""Random blocks: each is accepted, or refused in one line that names the key
(`tests/support/fuzz_config.py`).
"""

from tests.support import fuzz_config
from tests.support.effort import many


def test_every_block_runs_or_is_refused_in_one_line_and_no_nonsense_is_accepted():
    num = many(1000)
    faults, num_nonsense = fuzz_config.fuzz(fuzz_config.composed(), num, seed=0)
    assert not faults, "\n".join(faults[:20])
    assert 0.3 < num_nonsense / num < 0.95, "both kinds were tried"
