"""Pictures for the documentation, from what the commands really print about a recorded cluster."""
