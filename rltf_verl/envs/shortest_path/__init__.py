"""Shortest paths through a maze."""
