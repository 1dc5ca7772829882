"""Asking a judge model over the network: one budget, one cache and one set of counters for all who
ask.
"""
