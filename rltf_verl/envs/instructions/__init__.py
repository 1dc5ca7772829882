"""Requests with rules that a program checks: those of IFEval, and IFBench's for evaluation."""
