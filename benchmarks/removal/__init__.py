"""Whether a service that is uninstalled in the middle of a ramp leaves a user's objects as they were."""
