"""Feedback texts of which it is known whether they give the answer away, per environment.

Every text is about a problem and a wrong attempt at it. Kinds: `direct`, `paraphrased`, `spelled`,
`partial` and `oblique` (the reader has to work it out) leak, `innocent` mentions what a leak could
mention and tells nothing.
"""
