"""Changes of many assets at once: checked first, then written in slices between which others write."""
