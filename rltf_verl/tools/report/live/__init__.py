"""The viewer's page of runs that still train, from a server on this machine."""
