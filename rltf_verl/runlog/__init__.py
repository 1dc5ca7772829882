"""A run's files, and the meaning of a recorded turn."""
