"""One service process on a fleet: how soon it decides, what it misses, and what it costs while nothing happens."""
