"""Where signals come from: scrapes of every API server, PromQL, and what our own requests meet."""
