"""What `rltf plan` takes from verl: the config as `main_ppo` composes it, and its tokenisation."""
