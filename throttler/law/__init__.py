"""How many joins the API servers can bear now: the law, pure. Knowledge only; levers enforce."""
