"""Pretrained language models without a model hub: from a GGUF file to a Hugging Face folder."""
