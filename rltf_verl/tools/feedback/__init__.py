"""`rltf feedback check`: attempts made from a dataset's rows, what a feedback function says about
them, and what is wrong with it.
"""
