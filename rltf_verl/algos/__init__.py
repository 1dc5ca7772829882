"""The equations, in plain torch. What a step computes, in order:

`EpisodeBatch` holds rewards and turns of a batch of episodes, `RowBatch` the rows that they train.
`discounted_returns` and `turn_advantages` are multi-turn GRPO; `distill_advantages` and
`floor_mask` RLTF-SD; the token losses, `distill_loss` and `supervised_loss` (RLTF-FM, SFT,
self-critique) make numbers of log-probs; `logit_divergence`, `sampled_token` and `GATES` are
teachers; `share_weights` and `scheduled_weight` weigh objectives. Each docstring has the formula
and where it comes from.
"""
