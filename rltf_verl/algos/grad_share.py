"""Coefficients that give an objective its share of the gradient (`rltf.<objective>.grad_share`).

The pull of an objective is P = Σ over its tokens of |∂L/∂ℓ_t| at π_old, ℓ_t = log π_θ(y_t | ·):
what the metric `rltf/<objective>/grad_share` is made of. It is proportional to the coefficient.
"""

from __future__ import annotations

from collections.abc import Mapping


def share_weights(
    pulls: Mapping[str, float], shares: Mapping[str, float], weights: Mapping[str, float]
) -> dict[str, float]:
    """The coefficients with which objectives that have a share get it.

    With shares s_r, P_r(1) the pull of objective r at coefficient 1, and P the pull of all
    objectives without a share together,

        w_r = s_r / (1 − Σ s) · P / P_r(1),

    the sum being over the shares of objectives that have a pull. Where P = 0 (every group agrees,
    so attempts have no gradient) no coefficient makes a share, and w_r is the objective's own; so
    it is where P_r(1) = 0.

    Args:
        pulls: of each objective; of those with a share, at coefficient 1.
        shares: of each objective that has one at this step, in [0, 1).
        weights: coefficient of each objective.

    Example:
        >>> share_weights({"a": 3.0, "b": 2.0}, {"b": 0.25}, {"a": 1.0, "b": 9.0})
        {'a': 1.0, 'b': 0.5}
    """
    rest = sum(pull for name, pull in pulls.items() if name not in shares)
    left = 1.0 - sum(share for name, share in shares.items() if pulls[name] > 0)
    used = dict(weights)
    for name, share in shares.items():
        if rest > 0 and pulls[name] > 0:
            used[name] = share / left * rest / pulls[name]
    return used
