"""A generated workspace whose house has a rule that no prompt tells."""
