"""A real Kubernetes control plane on loopback, with simulated machines: demo, tests, benchmarks."""
