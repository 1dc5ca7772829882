"""The rollout engine `transformers`: one Hugging Face model on a CPU or a GPU, many requests in one
batch, no vLLM.
"""

ROLLOUT_NAME = "transformers"
"""The engine's name in verl."""
