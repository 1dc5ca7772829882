"""Where a number becomes a finding. Conventions, each with its reason; docs/probe.md lists them."""

from __future__ import annotations

DEAD = 0.8
"""Share of groups without a first-turn signal: fewer than one problem in five of a batch moves the
first answer.
"""
TELLS = 0.2
"""Share of wrong attempts whose feedback holds the answer: every fifth second answer may then be a
copy.
"""
UNCHANGED = 0.9
"""Share of wrong answers that are given again: nine second answers in ten are the first one, paid
for twice.
"""
FIXES = 0.05
"""Share of wrong first answers that become right, below which a second turn is no teacher
(docs/methods.md).
"""
MOST = 0.5
"""The same, from which on *most* second answers are right (docs/methods.md, "When to use
which").
"""
ANSWERED = 0.5
"""Share of first answers that hold an answer, below which the prompt and the grader seem to
disagree about its form.
"""
CUT_OFF = 0.2
"""Share of answers cut off at the token limit: they have no verdict of their own, only the
limit's.
"""
TOO_LONG = 0.1
"""Share of later prompts above the budget: their attempts are cut or their episodes end."""
EMPTY = 0.5
"""Share of feedback that says no more than right or wrong."""
FAILS = 0.1
"""Share of the times that feedback was asked for and none came."""
MENTIONS = 0.05
"""Share of second answers that speak of the feedback: distilled, one first answer in twenty learns
to.
"""
FAR = 2.0
"""Nats per token between last answers' own prompt and the first one: the ratio of a token is then
e² ≈ 7 on average.
"""
SLOW_S = 60.0
"""Seconds of judge time per step: an hour of waiting in sixty steps."""
