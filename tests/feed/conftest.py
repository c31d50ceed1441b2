"""Fixtures for tests of the feed."""

from __future__ import annotations

from tests.sync.conftest import engine

__all__ = ["engine"]
