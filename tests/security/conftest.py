"""Fixtures: one application with API clients and browsers."""

from __future__ import annotations

from tests.api.conftest import acme, app, rival, with_scopes
from tests.pages.conftest import ada, anybody, quick_and_forgiving, sign_in_as, site

__all__ = ["acme", "ada", "anybody", "app", "quick_and_forgiving", "rival", "sign_in_as", "site", "with_scopes"]
