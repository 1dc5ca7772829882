"""Before Ray starts: checks of the config, presets, the stamp of an experiment."""
