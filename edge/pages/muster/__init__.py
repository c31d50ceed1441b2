"""Pages of musters."""
