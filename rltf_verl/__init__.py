"""Reinforcement Learning from Text Feedback for unmodified verl. Importing this package costs
nothing.
"""

__version__ = "0.2.0"
