"""How fast, and in how much memory, lists of nodes become facts: ours against the official typed client."""
