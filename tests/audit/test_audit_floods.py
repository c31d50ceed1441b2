"""Nobody erases the audit by filling it: repeats are merged, too many are refused, and each loses their own entries."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from edge import clock
from edge.audit import actors, quotas
from edge.audit.actors import Actor, shell
from edge.audit.audit import MOST_REPEATS
from edge.database import connection
from edge.database.connection import execute
from edge.errors import OverQuota
from edge.people import people, sessions
from edge.people.people import Role
from edge.rate_limits import Buckets
from edge.records import assets, loans
from edge.tracking import deletion, lost_assets
from tests.conftest import Cast


@pytest.fixture
def olga(cast: Cast) -> Actor:
    row = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    return actors.person(cast.acme, row.id, row.name)


@pytest.fixture
def asset_id(cast: Cast) -> int:
    return assets.create(shell(cast.acme), name="Pallet").id


def lose(actor: Actor, asset_id: int, turn: int) -> None:
    lost_assets.mark_lost(actor, asset_id, clock.now(), is_lost=turn % 2 == 0)


def lend(actor: Actor, asset_id: int, turn: int) -> None:
    if turn % 2:
        loans.take_back(actor, asset_id)
    else:
        loans.lend(actor, asset_id, "Borrower")


def choose_language(actor: Actor, _: int, turn: int) -> None:
    assert actor.person_id
    people.update_person(actor, actor.person_id, language=("de", "fr")[turn % 2])


def repeat(toggle: Callable[[Actor, int, int], None], actor: Actor, asset_id: int, turns: int) -> None:
    for turn in range(turns):
        toggle(actor, asset_id, turn)


TOGGLES = [lose, lend, choose_language]


def entries_of(actor: Actor) -> list[tuple[str, int]]:
    """Return the actions of a person with the number of times that each entry stands for."""
    rows = execute("SELECT action, detail FROM audit WHERE actor_kind = 'person' AND actor_id = ?", (actor.id,))
    return [(action, json.loads(detail).get("attempts", 1)) for action, detail in rows]


@pytest.mark.parametrize("toggle", TOGGLES)
def test_repeats_are_merged_and_counted(olga: Actor, asset_id: int, toggle: Callable[[Actor, int, int], None]) -> None:
    turns = 6 * MOST_REPEATS
    repeat(toggle, olga, asset_id, turns)
    found = entries_of(olga)
    for action in {action for action, _ in found}:
        times = [number for one, number in found if one == action]
        assert MOST_REPEATS <= len(times) <= 2 * MOST_REPEATS + 1  # of each of two details, and the first choice
        assert sum(number - 1 for number in times) + len(times) >= turns // 2
    rest = len(found)
    toggle(olga, asset_id, turns)
    assert len(entries_of(olga)) == rest


def test_what_differs_is_not_merged(olga: Actor, asset_id: int) -> None:
    """Regression: after 50 loans, who got the asset was replaced by the next name."""
    for number in range(MOST_REPEATS + 2):
        loans.lend(olga, asset_id, f"Somebody {number}")
    assert entries_of(olga) == [("asset.lent", 1)] * (MOST_REPEATS + 2)


def test_a_repeat_is_not_merged_into_the_entry_of_somebody_else(olga: Actor, asset_id: int, cast: Cast) -> None:
    repeat(lose, olga, asset_id, 3 * MOST_REPEATS)
    row = people.add_person(shell(cast.acme), "Ada", Role.OPERATOR)
    ada = actors.person(cast.acme, row.id, row.name)
    lose(ada, asset_id, 0)
    assert entries_of(ada) == [("asset.marked_lost", 1)]


@pytest.mark.parametrize("toggle", TOGGLES)
def test_changes_beyond_a_rate_are_refused(
    olga: Actor, asset_id: int, toggle: Callable[[Actor, int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "_of_caller", Buckets(50_000, 1e-9))
    with pytest.raises(OverQuota):
        repeat(toggle, olga, asset_id, 10 * MOST_REPEATS)


def test_changes_leave_the_quota_of_new_records(olga: Actor, asset_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "_of_caller", Buckets(5_000, 1e-9))
    with pytest.raises(OverQuota):
        repeat(lose, olga, asset_id, 100)
    assets.create(olga, name="Next")


def test_a_flood_of_one_person_erases_no_entries_of_others(olga: Actor, cast: Cast) -> None:
    """Also not those of somebody in the same organization who wrote more, but earlier."""
    row = people.add_person(shell(cast.acme), "Ada", Role.EDITOR)
    ada = actors.person(cast.acme, row.id, row.name)
    for number in range(30):
        assets.create(ada, name=f"Crate {number}")
    execute("UPDATE audit SET at = at - ?", (8 * clock.DAY,))
    for number in range(20):
        assets.create(olga, name=f"Box {number}")
    total = execute("SELECT count(*) FROM audit").fetchone()[0]
    assert list(deletion.drop_audit_over(total - 10, limit=4)) == [4, 4, 2]
    assert (len(entries_of(ada)), len(entries_of(olga))) == (30, 10)


def test_a_full_audit_is_counted_once_and_each_step_reads_lines_of_one_author(olga: Actor) -> None:
    """Regression: the whole audit was read for every 500 lines, and older ones of others in the transaction."""
    for number in range(20):
        assets.create(olga, name=f"Box {number}")
    executed: list[str] = []
    connection.database.connection().set_trace_callback(executed.append)
    try:
        assert list(deletion.drop_audit_over(10, limit=4))[:2] == [4, 4]
    finally:
        connection.database.connection().set_trace_callback(None)
    deletes = [sql for sql in executed if sql.startswith("DELETE FROM audit")]
    assert (len([sql for sql in executed if "GROUP BY" in sql]), len(deletes) > 1) == (1, True)
    assert "audit_actor" in str(execute(f"EXPLAIN QUERY PLAN {deletes[0]}").fetchall())


def test_an_organization_without_quota_can_sign_in_and_out(olga: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their entries are merged instead, so that nobody fills the audit with them either."""
    monkeypatch.setattr(quotas, "_of_caller", Buckets(1, 1e-9))
    monkeypatch.setattr(quotas, "_of_organization", Buckets(1, 1e-9))
    for number in range(3 * MOST_REPEATS):
        sessions.add_session(olga, b"%d" % number, clock.now() + clock.HOUR)
        sessions.end_session(olga, b"%d" % number)
    found = entries_of(olga)
    assert len(found) == 2 * MOST_REPEATS
    assert sum(number for _, number in found) == 6 * MOST_REPEATS
