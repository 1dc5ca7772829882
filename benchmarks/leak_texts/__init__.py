"""Feedback texts of which it is known whether they give the answer away, per environment."""
