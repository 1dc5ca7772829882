"""An actor's class, for a process that imports one."""

import ray


@ray.remote
class Actor:
    """It does nothing."""
