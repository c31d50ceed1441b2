"""Sync upstream: many sites, one hub that shows them all."""
