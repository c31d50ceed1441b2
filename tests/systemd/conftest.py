"""A site for the real service."""

from __future__ import annotations

from tests.operations.conftest import site

__all__ = ["site"]
