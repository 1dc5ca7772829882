"""The CPU as a place to run verl: platform, engine, processes.

On the CPU platform only, `plugin` arms its hooks, and others reach `services` by
`hardware.cpu_services`.
"""
