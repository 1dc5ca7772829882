"""Knights and knaves."""
