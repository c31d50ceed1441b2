"""Subcommands of `edge`, one file for each group."""
