"""Rows between rollout and trainer, in the transfer queue."""
