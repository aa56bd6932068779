"""How soon another replica leads after the first was killed, frozen or cut off, and that two never write."""
