"""How long the law takes over an oracle, and what it does to the servers on the way, in simulation."""
