"""`edge rules` in the shell."""

from __future__ import annotations

from edge.clock import SECOND
from edge.events import detection
from edge.people import organizations
from edge.rules.conditions import Condition
from tests.commands.conftest import Shell
from tests.events.conftest import SILENCE
from tests.rules.conftest import Site


def test_rules_are_listed_shown_previewed_and_disabled(edge: Shell) -> None:
    site = Site(organizations.find_organization(None).id)
    detection.start(SILENCE)
    site.add_rule(Condition.STAYS, "north", span=7200 * SECOND)
    no = site.add_rule(Condition.ENTERS, "north")
    site.seen(site.add_asset("P1"), "north", 0)
    site.evaluate()
    assert "When any asset stays in North longer than 2 hours, at any time" in edge.ok("rules", "list")
    assert "Pallet P1 entered North" in edge.ok("rules", "show", "Rule enters")
    shown = edge.ok("rules", "preview", str(no))
    assert "1 in the last 7 days" in shown
    assert "Pallet P1" in shown
    edge.ok("rules", "disable", "Rule enters")
    assert "(disabled)" in edge.ok("rules", "show", "Rule enters")
    edge.ok("rules", "enable", "Rule enters")
    assert "disabled" not in edge.ok("rules", "list")
    code, output = edge("rules", "show", "None")
    assert (code, "There is no rule None" in output) == (1, True)
