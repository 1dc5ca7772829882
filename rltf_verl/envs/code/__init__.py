"""Programs, run by tests in a sandbox."""
