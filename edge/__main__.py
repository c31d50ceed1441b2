"""`python -m edge` is the `edge` command."""

from edge.cli import main

main()
