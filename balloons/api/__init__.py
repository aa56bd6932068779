"""The API objects users write: their types, their rules and their status. Pure."""
