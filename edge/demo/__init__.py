"""A whole site with nothing installed: made-up assets and simulated readers, and for the rest the real thing."""
