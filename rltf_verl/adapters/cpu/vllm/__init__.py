"""vLLM on the CPU."""
