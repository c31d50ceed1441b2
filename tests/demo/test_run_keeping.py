"""A temporary demo leaves nothing behind, a kept one continues, and no other site is touched."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.demo import run
from edge.demo.guide import guide
from edge.demo.run import Demo, free_port, running_demo
from edge.errors import SetupError
from edge.people import api_keys, organizations, people
from edge.people.passwords import matches
from edge.records import assets, locations
from edge.records.record import RecordFilter


def keys_in_force(demo: Demo) -> list[str]:
    return [key.id for key in api_keys.list_keys(demo.access.organization_id)]


def counts(demo: Demo) -> tuple[int, int]:
    organization_id = demo.access.organization_id
    return (
        assets.list_page(organization_id, RecordFilter(), limit=1).total_count,
        locations.list_page(organization_id, RecordFilter(), limit=1).total_count,
    )


def test_a_kept_site_goes_on_with_new_credentials(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with running_demo(folder, free_port(0), free_port(0)) as first:
        assert counts(first) == (200, 25)
    with running_demo(folder, free_port(0), free_port(0)) as second:
        assert str(folder) in guide(second)
        assert counts(second) == (200, 25)
        assert second.access.password != first.access.password
        (person,) = people.find_by_email(second.access.email)
        assert person is not None
        assert matches(person.password_hash, second.access.password)
        assert not matches(person.password_hash, first.access.password)
        assert keys_in_force(second) == [second.access.client_id]


def test_a_temporary_demo_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.tempfile, "tempdir", str(tmp_path))
    with running_demo(None, free_port(0), free_port(0)):
        assert list(tmp_path.glob("edge-demo-*/edge.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_real_site_is_not_made_a_demo(tmp_path: Path) -> None:
    migrate.migrate(tmp_path)
    organizations.add_organization(shell(), "Acme")
    close_database()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    with pytest.raises(SetupError, match="not a demo"), running_demo(tmp_path):
        pass
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_only_a_default_port_in_use_is_replaced() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert free_port(taken) not in (0, taken)
        with pytest.raises(SetupError, match=f"Port {taken} is in use"), running_demo(None, http_port=taken):
            pass
