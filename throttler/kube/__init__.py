"""Kubernetes, for both halves: its objects, the client that reads and writes them, the Lease and who leads.

The only place that touches the API server, and it imports nothing else of ours. The objects and the election are pure;
the client counts every attempt and passes every call through one gate.
"""
