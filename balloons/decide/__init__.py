"""The decision: `decide(snapshot, memory, settings, now)` gives what to do, and the next memory. Pure."""
