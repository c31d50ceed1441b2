"""The v1 JSON API: one module for each resource."""
