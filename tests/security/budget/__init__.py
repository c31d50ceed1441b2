"""Memory attacks on a real process in a cgroup of the unit's size."""
