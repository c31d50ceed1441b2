"""A warehouse with rules. Times are seconds after `began`, an hour ago."""

from __future__ import annotations

from collections.abc import Container
from zoneinfo import ZoneInfo

import pytest

from edge.database.connection import execute
from edge.events import detection
from edge.rules import rules
from edge.rules.alerts import Alert, AlertFilter, list_alerts
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.rules.rules import RuleFields
from tests.conftest import Cast
from tests.events.conftest import SILENCE, Warehouse, make_events

UTC = ZoneInfo("UTC")


class Site(Warehouse):
    """A warehouse with rules that are evaluated on request. Rules count as saved before its first read."""

    def __init__(self, organization_id: int, prefix: str = "") -> None:
        super().__init__(organization_id, prefix)
        self.engine = Engine(UTC)

    def add_rule(self, kind: Condition, place: str | None = None, **fields: object) -> int:
        location_id = self.places[place] if place else None
        no = rules.add_rule(self.actor, RuleFields(f"Rule {kind}", kind, location_id=location_id, **fields))  # type: ignore[arg-type]
        execute("UPDATE rule SET changed_at = ? WHERE no = ?", (self.began - 1, no))
        self.evaluate()
        return no

    def evaluate(self) -> None:
        make_events()
        self.engine.follow()

    def alerts(self) -> list[Alert]:
        return list_alerts(self.organization_id, AlertFilter(is_open=False), 1000)[::-1]

    def sentences(self, numbers: Container[int] | None = None) -> list[str]:
        """Return the texts of alerts, oldest first; optionally of some rules, by number."""
        return [one.sentence for one in self.alerts() if numbers is None or one.rule_no in numbers]


@pytest.fixture
def site(cast: Cast) -> Site:
    made = Site(cast.acme)
    detection.start(SILENCE)
    return made
