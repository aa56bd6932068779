"""Who leads: the pure half of our own leader election (docs/decisions/0010-own-leader-election.md)."""
