"""Metrics of a step."""
