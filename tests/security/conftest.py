"""One application with the API's clients and the browsers of the pages."""

from __future__ import annotations

from tests.api.conftest import acme, app, rival, with_scopes
from tests.pages.conftest import anybody, sign_in_as, site

__all__ = ["acme", "anybody", "app", "rival", "sign_in_as", "site", "with_scopes"]
