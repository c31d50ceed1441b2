"""Rules for bodies, queries and fields: plain values, or Invalid. Knows nothing else of the program."""
