"""The actor on the CPU: verl's FSDP engine with shared prefixes, no padding and no whole logits."""
