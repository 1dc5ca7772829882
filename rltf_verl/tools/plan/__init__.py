"""`rltf plan`: what a run will do, from its config, a few rows and its tokenizer. Nothing is
trained, sampled or asked.
"""
