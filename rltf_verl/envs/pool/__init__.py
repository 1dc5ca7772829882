"""Comparisons that may never end, in processes that can be killed."""
