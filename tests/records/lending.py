"""Loans that are overdue."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.records import loans


def lend_until_yesterday(monkeypatch: pytest.MonkeyPatch, organization_id: int, asset_id: int) -> None:
    now = clock.now()
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now - 2 * clock.DAY)
        loans.lend(shell(organization_id), asset_id, "Ada", now - clock.DAY)
