"""Plans made before real scale-ups on a real control plane, and what then happened."""
