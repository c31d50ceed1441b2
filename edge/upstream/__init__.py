"""Copies of assets, locations and tags in another service with the same v1 API."""
