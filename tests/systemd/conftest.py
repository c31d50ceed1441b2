"""A site for the service to run at."""

from __future__ import annotations

from tests.operations.conftest import site

__all__ = ["site"]
