"""Objectives: what the tokens of an episode add to the loss. One module each; `Method` holds those
of a run, and row maker, targets, loss, checks and metrics iterate over them.
"""

from rltf_verl.objectives.base import Objective
from rltf_verl.objectives.method import BUILT_IN, Method

__all__ = ["BUILT_IN", "Method", "Objective"]
