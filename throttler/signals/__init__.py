"""What the API servers say about themselves, made comparable: bytes to counters to windows. Pure."""
