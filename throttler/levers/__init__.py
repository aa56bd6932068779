"""What makes an autoscaler or a node wait, one module each. Pure: each says what to write; the service writes it."""
