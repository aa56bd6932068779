"""How long a decision takes, and how much memory the view behind it needs, up to 100,000 nodes."""
