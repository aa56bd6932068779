"""Reads a cluster once, or a file that holds one, into a SeenCluster. All of its I/O is here."""
