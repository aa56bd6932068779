"""How long real pods wait for warm nodes: one alone, and bursts, by plain preemption and by burst release."""
