"""Every write names its actor and leaves an audit entry; exceptions are listed with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.audit import trail
from edge.audit.actors import ActorKind, shell
from edge.audit.audit import acting
from edge.database.connection import execute, writing
from edge.errors import Conflict
from edge.pages.audit import KINDS
from edge.people import api_keys, people, sessions
from edge.people.people import Role
from edge.readers import broker_accounts, readers
from edge.records import assets, locations
from edge.tracking import deletion
from tests.audit.audited_acts import EXAMPLES, NOT_AUDITED, PART_OF_AN_ACT, WITH_AN_ACTOR_OF_THEIR_OWN
from tests.audit.stage import Stage, set_stage
from tests.audit.writers import EDGE, functions_that_write, modules_of_the_database, names_used, writing_functions
from tests.conftest import Cast


@pytest.fixture
def stage(cast: Cast) -> Stage:
    return set_stage(cast.acme)


def test_every_writing_function_is_audited_or_listed_with_a_reason() -> None:
    listed = {name for names in NOT_AUDITED.values() for name in names}
    assert set(functions_that_write()) - listed == set(EXAMPLES)
    assert listed <= set(functions_that_write())


def test_steps_of_an_act_are_called_only_by_database_modules() -> None:
    receivers = {EDGE / "listeners.py"}  # called by a signal within an act
    outside = set(EDGE.rglob("*.py")) - set(modules_of_the_database()) - receivers
    assert NOT_AUDITED[PART_OF_AN_ACT] & {name for path in outside for name in names_used(path)} == set()


WAYS_TO_WRITE = {
    "a statement": "def write(): execute('DELETE FROM tag')",
    "one of many": "def write(): execute_many('INSERT OR IGNORE INTO tag VALUES (?)', [(1,)])",
    "one that replaces": "def write(): execute(f'REPLACE INTO {1} VALUES (1)')",
    "a constant": "SQL: str = 'UPDATE tag SET id = 1'\ndef write(): execute(SQL)",
    "a constant of another module": "from edge.records.other import SQL\ndef write(): [execute(one) for one in SQL]",
    "a constant made of another": "_SQL = 'UPDATE tag'\nSQL = f'{_SQL} SET id = 1'\ndef write(): execute(SQL)",
    "a function": "from edge.records import other\ndef write(): other.change()",
    "one that is imported late": (
        "def write():\n    from edge.records.other import change as do\n    return map(do, ())"
    ),
    "one's own private function": "def _hidden(): execute('DELETE FROM tag')\ndef write(): _hidden()",
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE)
def test_every_way_to_write_is_detected(way: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("SQL = ['DELETE FROM tag']\ndef change(): execute('DELETE FROM tag')")
    (tmp_path / "module.py").write_text(WAYS_TO_WRITE[way] + "\ndef read(): execute('SELECT 1')")
    assert set(writing_functions([tmp_path / "module.py", tmp_path / "other.py"])) == {"module.write", "other.change"}


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(WITH_AN_ACTOR_OF_THEIR_OWN)))
def test_the_actor_is_the_first_argument(name: str) -> None:
    assert functions_that_write()[name].first_type == "Actor"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_write_leaves_an_entry(stage: Stage, name: str) -> None:
    act, action, called = EXAMPLES[name]
    last = execute("SELECT max(no) FROM audit").fetchone()[0]
    act(stage)
    entries = execute(
        "SELECT action, subject_kind, subject_name, actor_kind, actor_name FROM audit WHERE no > ? ORDER BY no", (last,)
    )
    *_, (noted, subject_kind, subject, kind, who) = entries.fetchall()
    assert (noted, subject) == (action, called)
    assert subject_kind in KINDS, "the page Audit cannot filter by it"
    if name not in WITH_AN_ACTOR_OF_THEIR_OWN and not name.startswith("organizations"):
        assert (kind, who) == (ActorKind.PERSON, "Ada")


def test_a_write_without_an_entry_is_rolled_back(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="no line in the audit"), acting(stage.ada):
        execute("UPDATE asset SET name = 'silent'")
    assert assets.get(stage.ada.organization_id, stage.asset.id).name == "Pallet"


def test_an_act_without_changes_leaves_no_entry(stage: Stage) -> None:
    before = trail.recent(stage.ada.organization_id)
    assets.rename(stage.ada, stage.asset.id, "A-1")
    assets.patch(stage.ada, stage.asset.id, {"name": "Pallet"})
    locations.patch(stage.ada, stage.location.id, {})
    people.update_person(stage.ada, stage.olga.id, name="Olga", role=Role.OPERATOR)
    people.enable_person(stage.ada, stage.olga.id)
    people.disable_person(stage.ada, stage.olga.id)
    people.disable_person(stage.ada, stage.olga.id)
    readers.change_reader(stage.ada, stage.reader.id, {"name": "Portal", "location_id": None})
    sessions.end_session(stage.ada, b"nobody's")
    after = trail.recent(stage.ada.organization_id)
    assert [line.action for line in after[: -len(before)]] == ["person.disabled"]


def test_a_refused_act_leaves_no_entry(stage: Stage) -> None:
    before = trail.recent(stage.ada.organization_id)
    with pytest.raises(Conflict):
        assets.create(stage.ada, name="Again", external_key="A-1")
    assert trail.recent(stage.ada.organization_id) == before


def test_an_entry_has_old_and_new_values(stage: Stage) -> None:
    hall = locations.create(stage.ada, name="Hall", external_key="H-1")
    locations.patch(stage.ada, stage.location.id, {"name": "Dock 1", "parent_id": hall.id})
    readers.change_reader(stage.ada, stage.reader.id, {"location_id": hall.id, "min_rssi": -60.0})
    reader, location = trail.recent(stage.ada.organization_id, 2)
    assert location.detail == {"name": {"old": "Dock", "new": "Dock 1"}, "parent": {"old": None, "new": "H-1"}}
    assert reader.detail == {"min_rssi": {"old": None, "new": -60.0}, "location": {"old": None, "new": "Hall (H-1)"}}


def test_entries_contain_no_secrets_or_hashes(stage: Stage) -> None:
    people.update_person(stage.ada, stage.olga.id, password_hash="scrypt:x$HASHED", pin_hash="scrypt:y$HASHED")
    api_keys.add_key(stage.ada, "ERP", ["assets:read"], b"HASHED")
    broker_accounts.set_account(stage.ada, stage.reader.id, "$7$HASHED")
    lines = trail.recent(stage.ada.organization_id, 3)
    assert lines[2].detail == {"password": "changed", "pin": "changed"}
    assert "HASHED" not in str(execute("SELECT * FROM audit").fetchall())


def test_long_texts_are_cut_with_a_note(stage: Stage) -> None:
    assets.patch(stage.ada, stage.asset.id, {"description": "x" * 5000})
    description = trail.recent(stage.ada.organization_id, 1)[0].detail["description"]["new"]
    assert description.endswith("… (5000 characters)")
    assert len(description) < 1100


def test_wrong_passwords_within_an_hour_are_one_entry(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        sessions.refuse(stage.olga, None, f"10.0.0.{number}")
        sessions.refuse(None, None, f"10.0.1.{number}")
    mine = trail.recent(stage.ada.organization_id, 1)[0]
    earlier = [{"address": f"10.0.0.{number}"} for number in range(10)]
    assert (mine.subject_name, mine.detail) == (
        "Olga",
        {"address": "10.0.0.29", "attempts": 30, "earlier": earlier},
    )
    assert "earlier: (address: 10.0.0.0), (address: 10.0.0.1), " in " ".join(mine.changes)
    entries = trail.list_page(cast.acme, trail.AuditFilter(subject_kind=trail.BOX), limit=9).rows
    assert [line.detail["attempts"] for line in entries if line.action == "person.sign_in_refused"] == [30]
    later = clock.now() + clock.HOUR + 1
    monkeypatch.setattr(clock, "now", lambda: later)
    sessions.refuse(stage.olga, None, "10.0.0.1")
    assert trail.recent(stage.ada.organization_id, 1)[0].detail["attempts"] == 1


def test_filters_and_pages_of_the_trail(stage: Stage, cast: Cast) -> None:
    assets.patch(shell(cast.acme, "root"), stage.asset.id, {"name": "Box"})
    assets.create(shell(cast.rival), name="Theirs")
    locations.create(stage.ada, name="Überseekai")

    def actions(**filters: Any) -> list[str]:
        page = trail.list_page(cast.acme, trail.AuditFilter(**filters), limit=50)
        assert page.total_count == len(page.rows)
        return [line.action for line in page.rows]

    assert actions(subject_id=str(stage.asset.id)) == ["asset.changed", "asset.created"]
    assert actions(actor_kind="shell", subject_kind="asset") == ["asset.changed"]
    assert actions(actor_kind="person", actor_id=stage.ada.id, subject_kind="asset") == ["asset.created"]
    assert actions(subject="pallet") == ["asset.created"]
    assert actions(subject="ÜBERSEE") == ["location.created"]
    assert "asset.created" not in actions(since=clock.now() + clock.SECOND)
    assert actions(until=1) == []
    whole = trail.recent(cast.acme)
    page = trail.list_page(cast.acme, trail.AuditFilter(), limit=3, offset=2)
    assert (page.rows, page.total_count) == (whole[2:5], len(whole))


def test_a_flood_of_changes_erases_no_entries_of_others(stage: Stage, cast: Cast) -> None:
    of_rival = "SELECT count(*) FROM audit WHERE organization_id = ?"
    locations.create(shell(cast.rival), name="Dock")
    before = execute(of_rival, (cast.rival,)).fetchone()[0]
    for number in range(20):
        locations.create(shell(cast.acme), name=f"Rack {number}")
    keep = execute("SELECT count(*) FROM audit").fetchone()[0] - 10
    assert list(deletion.drop_audit_over(keep, limit=4)) == [4, 4, 2]
    assert execute(of_rival, (cast.rival,)).fetchone()[0] == before


def test_old_entries_are_deleted_in_steps_by_index(stage: Stage, cast: Cast) -> None:
    with writing():
        execute("UPDATE audit SET at = 1000 + no")
    count = execute("SELECT count(*) FROM audit").fetchone()[0]
    newest = execute("SELECT max(no) FROM audit").fetchone()[0]
    steps = iter(lambda: deletion.drop_audit(1000 + newest, limit=2), 0)
    assert sum(steps) == count - 1
    assert list(deletion.drop_audit_over(keep=1)) == []
    assert list(deletion.drop_audit_over(keep=0)) == [1]
    plan = execute(
        f"EXPLAIN QUERY PLAN SELECT no FROM audit WHERE {deletion._OLD_AUDIT} LIMIT ?", (cast.acme, 1, 1)
    ).fetchall()
    assert "audit_recent" in str(plan)
