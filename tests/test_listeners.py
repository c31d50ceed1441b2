"""Signals of records: received in the transaction that sends them, and never without a receiver."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from blinker import Signal

from edge import listeners
from edge.audit.actors import shell
from edge.commands.context import Setup, open_site
from edge.config.settings import Config
from edge.database.connection import execute
from edge.errors import Conflict
from edge.records import assets, locations, tagging
from edge.records.tags import NewTag
from edge.runtime.serve import running
from tests.conftest import Cast

TAG = NewTag("rfid", "E28011700000020A7B2C3D4E")


class Connected(Exception):
    pass


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> None:
    def note() -> NoReturn:
        raise Connected

    monkeypatch.setattr(listeners, "connect", note)


@pytest.mark.usefixtures("connect")
def test_commands_connect_the_receivers(store: Path) -> None:
    with pytest.raises(Connected):
        open_site(Setup(Config(data_dir=store), []))


@pytest.mark.usefixtures("connect")
def test_the_service_connects_the_receivers(store: Path) -> None:
    with pytest.raises(Connected), running(Config(data_dir=store)):
        pass


def test_an_error_of_a_receiver_undoes_the_transaction(cast: Cast) -> None:
    def refuse(_: Any, **__: Any) -> NoReturn:
        raise Conflict("no")

    with tagging.tag_attached.connected_to(refuse), pytest.raises(Conflict):
        assets.create(shell(cast.acme), name="Pallet", tags=[TAG])
    assert execute("SELECT count(*) FROM asset").fetchone() == (0,)


def test_no_tag_is_attached_and_no_location_deleted_without_receivers(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    dock = locations.create(shell(cast.acme), name="Dock")
    monkeypatch.setattr(tagging, "tag_attached", Signal())
    monkeypatch.setattr(locations, "location_deleting", Signal())
    with pytest.raises(RuntimeError):
        assets.create(shell(cast.acme), name="Pallet", tags=[TAG])
    with pytest.raises(RuntimeError):
        locations.delete(shell(cast.acme), dock.id)
    assert locations.get(cast.acme, dock.id) == dock
