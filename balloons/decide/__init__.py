"""The decision: `decide(snapshot, memory, settings, now)` gives a plan and the next memory. Pure."""
