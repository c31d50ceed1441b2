"""Keeping a site alive: backup, restore, retention, doctor, health."""
