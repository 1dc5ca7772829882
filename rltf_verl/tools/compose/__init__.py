"""The config as `main_ppo` composes it, for `plan`, `adopt` and `doctor`."""
