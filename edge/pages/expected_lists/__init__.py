"""Pages of expected lists."""
