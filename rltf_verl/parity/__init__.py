"""`rltf parity FILE.json`: hold our rows, advantages and losses against numbers computed by the
released code.

Goes through what training uses: `episode_rows`, `pack_episodes`, `compute_targets`, `role_loss`,
`TOKEN_LOSSES`, every mode of the release as an `RLTFConfig`.
"""

from rltf_verl.parity.report import Report, Section
from rltf_verl.parity.run import run_parity

__all__ = ["Report", "Section", "run_parity"]
