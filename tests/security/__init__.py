"""Attacks that once worked, each as the test that would find it again; `flood.py` measures the slow ones."""
