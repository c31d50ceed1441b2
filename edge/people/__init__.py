"""People, devices, API keys and organizations, and their authentication. Does not use Flask."""
