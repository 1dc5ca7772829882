"""Texts that a judge scores."""
