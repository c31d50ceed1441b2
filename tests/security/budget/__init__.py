"""Attacks on the memory of the service, each against a real process in a cgroup of the unit's size."""
