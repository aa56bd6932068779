"""Which nodes are on their way, and how far: counted from the real objects. Pure."""
