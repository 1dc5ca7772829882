"""Episodes against an OpenAI-compatible endpoint: the episode code of training, without the
trainer.
"""
