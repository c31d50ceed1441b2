"""Demo site: invented assets and simulated readers on the real service, without any installation."""
