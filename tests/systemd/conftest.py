"""A site for the service to run at."""

from __future__ import annotations

from tests.ops.conftest import site

__all__ = ["site"]
