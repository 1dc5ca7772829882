"""What a run writes, and what a recorded turn means."""
