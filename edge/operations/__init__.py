"""Operation of a site: backup, restore, retention, doctor, health, upgrades."""
