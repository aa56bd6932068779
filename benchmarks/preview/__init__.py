"""How fast a preview answers."""
