"""A checkpoint of verl as a Hugging Face folder with a model card (`rltf export`)."""
