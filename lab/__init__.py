"""A local control plane of the real binaries, with simulated machines and clouds behind it."""
