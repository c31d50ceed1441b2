"""The subcommands of `edge`, one file for each group."""
