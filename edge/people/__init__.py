"""Who is asking: secrets, tokens, sessions, principals. Knows the store, no Flask."""
