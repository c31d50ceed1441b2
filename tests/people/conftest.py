"""Fixtures: one application with API clients."""

from __future__ import annotations

from tests.api.conftest import acme, app, rival, with_scopes

__all__ = ["acme", "app", "rival", "with_scopes"]
