"""Coefficient schedules. A function of the step, so that a resumed run continues the ramp (the
release restarts it).
"""

from __future__ import annotations


def scheduled_weight(
    weight: float | tuple[float, float], step: int, num_steps: int, start_step: int = 0
) -> float:
    """w(k) = s + (e − s)·p with p = (k − k₀) / max(K − k₀ − 1, 1), clamped to [0, 1]; 0 before k₀.

    Args:
        weight: a constant, or (start, end) of a linear ramp.
        step: k, 0-based training step.
        num_steps: K, the step count after which the ramp has ended.
        start_step: k₀, the step at which the objective starts.

    Returns:
        The coefficient at this step.

    Example:
        >>> scheduled_weight((0.0, 0.1), step=272, num_steps=544)
        0.05009208103130756
    """
    if step < start_step:
        return 0.0
    if not isinstance(weight, tuple):
        return weight
    start, end = weight
    progress = (step - start_step) / max(num_steps - start_step - 1, 1)
    return start + (end - start) * min(max(progress, 0.0), 1.0)
