"""One object's story: what it asked for, what held it, how far it has come, and how long each step took. Pure."""
