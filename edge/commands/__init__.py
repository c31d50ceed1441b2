"""Groups of the `edge` command, one file for each kind of thing."""
