"""A plant to try pacing on: API servers under load, machines that boot and join. Deterministic per seed.

The preview runs on it; `lab.simulator` runs the same plant in two other grains. No I/O, no clock.
"""
