"""The rollout engine `transformers`: one Hugging Face model on the CPU, many requests in one batch,
no vLLM.
"""
