"""The scale-up of a cluster simulated whole, by request (the truth) and by cohort (fast): for benchmarks and tests."""
