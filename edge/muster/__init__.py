"""Musters: who is safe at a muster point, and who is missing."""
