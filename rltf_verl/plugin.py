"""The `verl.plugins` entry point."""
