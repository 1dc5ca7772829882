"""The commands on data: build, wrap, check, show, export."""
