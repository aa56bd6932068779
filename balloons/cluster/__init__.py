"""A cluster as it was read once: the one value that plan, simulate, doctor, explain and report take. Pure."""
