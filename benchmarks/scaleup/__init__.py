"""The same scale-up on a real, small control plane under different ways of pacing it."""
