"""Exit with 1, and say why, if the probe of a base model forbids training on these problems.

python probe_gate.py outputs/rl2f/probe.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEAST, MOST = 0.05, 0.95
"""Share of first answers that are right. Conventions; beyond them hardly a problem of a batch moves
the first answer."""

DEAD = 0.80
"""Of groups whose first answers all earn the same; `rltf probe` has the same threshold."""


def reasons(probe: dict[str, Any]) -> Iterator[str]:
    """Why not to train.

    Args:
        probe: what `rltf probe --json` prints.
    """
    shares = probe["measured"]["shares"]
    solved, dead, corrected = (
        shares[k]["value"] for k in ("first_right", "dead_groups", "corrected")
    )
    if solved is None:
        yield "no first answer could be graded"
    elif solved < LEAST:
        after = "" if corrected is None else f"; hints fix {corrected:.0%} of its wrong answers"
        yield (
            f"the base model solves {solved:.1%} at once, less than {LEAST:.0%}{after}."
            " Take easier problems"
        )
    elif solved > MOST:
        yield (
            f"the base model solves {solved:.1%} at once, more than {MOST:.0%}."
            " Take harder problems"
        )
    if dead is not None and dead >= DEAD:
        yield (
            f"{dead:.0%} of the groups have equal rewards (zero variance) and teach nothing. Take "
            "problems that it solves sometimes, or more episodes per problem (rollout.n)"
        )
    for finding in probe["findings"]:
        if finding["level"] == "error":
            yield f"rltf probe: {finding['key']}={finding['value']}: {finding['why']}"


def main() -> None:
    stops = list(reasons(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    for reason in stops:
        print(f"STOP: {reason}", file=sys.stderr)
    raise SystemExit(bool(stops))


if __name__ == "__main__":
    main()
