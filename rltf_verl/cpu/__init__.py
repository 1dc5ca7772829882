"""The CPU as a place to run verl: platform, engine, rollout, processes.

`plugin` arms its hooks, and `adapters.platform` reaches `startup`, on the CPU platform only.
"""
