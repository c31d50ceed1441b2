"""Labels: what is on one, on which paper, as PDF and for label printers. Knows no database and no web page."""
