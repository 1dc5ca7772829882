"""Reinforcement Learning from Text Feedback for unmodified verl."""

__version__ = "0.2.0"
