"""The web pages for operators, technicians and administrators."""
