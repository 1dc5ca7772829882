"""The viewer: the episodes of runs as one HTML page, written or served."""
