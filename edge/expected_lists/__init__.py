"""Expected lists: what should be loaded or received, compared with passages and scans."""
