"""Checks of `edge doctor`: box, data, broker, readers, events and sync."""
