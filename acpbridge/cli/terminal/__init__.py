"""The terminal as a thing to write on and to read from. Knows of no event and of no question."""
