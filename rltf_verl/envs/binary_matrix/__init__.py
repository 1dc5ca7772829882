"""Distances in a binary matrix."""
