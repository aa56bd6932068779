"""The Kubernetes objects that both halves read: quantities, nodes, pods, selectors. Pure."""
