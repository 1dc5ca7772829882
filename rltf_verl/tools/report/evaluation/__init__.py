"""The numbers of an evaluation: tables, intervals, a plot."""
