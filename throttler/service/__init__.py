"""The throttle at work: what reads, decides and writes in a running process."""
