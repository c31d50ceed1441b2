"""Pages of doors and passages."""
