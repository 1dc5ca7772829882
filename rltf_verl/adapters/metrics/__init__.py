"""What a step logs."""
