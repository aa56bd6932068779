"""A plant to try pacing on: API servers under load, machines that boot and join. Deterministic per seed.

Two grains of the same plant, held together by a test: by request (the truth) and by cohort (fast). The preview runs
on the second. No I/O, no clock.
"""
