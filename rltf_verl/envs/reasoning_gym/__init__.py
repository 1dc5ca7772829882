"""The tasks of reasoning-gym."""
