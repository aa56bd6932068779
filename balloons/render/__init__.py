"""The manifests we apply, and whether what is stored already says the same. Pure."""
