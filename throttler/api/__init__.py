"""JoinThrottle, the object through which users set the pace of growth. Pure."""
