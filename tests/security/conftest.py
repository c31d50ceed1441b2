"""Fixtures: one application with API clients and browsers."""

from __future__ import annotations

import pytest
from flask import Flask

from tests.api.conftest import acme, rival, with_scopes
from tests.application import make_app
from tests.pages.conftest import ada, anybody, quick_and_forgiving, sign_in_as, site

__all__ = ["acme", "ada", "anybody", "app", "quick_and_forgiving", "rival", "sign_in_as", "site", "with_scopes"]


@pytest.fixture
def app(store: object) -> Flask:
    """A new application: these tests occupy its threads and replace its views."""
    return make_app()
