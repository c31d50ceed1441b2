"""Web pages for operators, technicians and administrators."""
