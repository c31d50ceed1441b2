"""Attacks that once worked, each as the test that would find it again; `slow.py` measures how long others wait."""
