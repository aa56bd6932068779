"""How long balloons take to be placed under the three spreads, and what unrelated pods feel meanwhile."""
