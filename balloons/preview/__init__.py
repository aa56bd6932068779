"""What a scale-up would do, before anybody starts it. Pure: values in, a plan out; no clock, no network."""
