"""Rules: which conditions raise alerts, and who is notified."""
