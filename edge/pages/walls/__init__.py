"""Pages of walls: their list for administrators, and what a screen shows."""
