"""Our rows, advantages and losses against the numbers of the released code.

Goes through what training uses: `episode_rows`, `pack_episodes`, `compute_targets`, `role_loss`,
`TOKEN_LOSSES`, every mode of the release as an `RLTFConfig`.
"""
