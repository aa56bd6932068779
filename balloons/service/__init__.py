"""The service: watch, decide, write, tell. Everything that touches the network or a clock is here."""
