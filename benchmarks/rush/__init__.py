"""One job asks for many whole nodes at once: at once, at fixed windows, and by the law with each lever."""
