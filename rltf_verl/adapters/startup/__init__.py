"""Before Ray starts: checks of the config, the stamp of an experiment."""
