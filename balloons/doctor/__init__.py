"""Looks for what makes warm capacity, autoscaling or pacing fail silently: functions of a seen cluster. Pure."""
