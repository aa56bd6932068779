"""A small control plane to scale up on, and what a scale-up is like for everybody else there."""
