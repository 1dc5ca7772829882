"""The viewer: the episodes of a run as one HTML page."""
