"""Regression tests of attacks that once worked. `slow.py` measures waiting times during slow requests."""
