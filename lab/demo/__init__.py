"""The main job on a real control plane, told so that a newcomer understands it: `make demo`."""
