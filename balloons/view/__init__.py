"""The cluster as one decision sees it: an index kept up to date by events, and snapshots of it. Pure."""
