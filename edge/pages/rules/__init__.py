"""Pages of rules, alerts and channels."""
