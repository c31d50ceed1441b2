"""Doors: which assets passed them, when, and in which direction."""
