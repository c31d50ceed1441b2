"""Import of fifty readers, and new passwords for all of them."""

import csv
import io
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edge.audit.actors import shell
from edge.cli import cli
from edge.people.organizations import add_organization, list_organizations
from edge.readers.broker_accounts import list_accounts
from edge.readers.readers import list_readers
from edge.records import locations


@pytest.fixture
def organization(store: Path) -> int:
    organization_id = add_organization(shell(), "Acme").id
    locations.create(shell(organization_id), name="Dock 1", external_key="DOCK-1")
    return organization_id


def edge(store: Path, *arguments: str) -> Result:
    (store / "mqtt.password").write_text("secret")
    settings = (
        f"data_dir={store}",
        f"mqtt.password_file={store / 'mqtt.password'}",
        f"mqtt.accounts_dir={store / 'broker'}",
    )
    return CliRunner().invoke(cli, [*(f"--set={one}" for one in settings), *arguments])


def table(store: Path, *rows: str) -> Path:
    file = store / "readers.csv"
    file.write_text("\n".join(["name;topic;format;location;min_rssi", *rows]))
    return file


def credentials(file: Path) -> dict[str, str]:
    return {row["user"]: row["password"] for row in csv.DictReader(io.StringIO(file.read_text("utf-8-sig")))}


def test_fifty_readers_come_with_accounts_and_all_get_new_passwords(store: Path, organization: int) -> None:
    file = table(store, *(f"dock{number};site/dock{number}/reads;edge;DOCK-1;-65" for number in range(50)))
    result = edge(store, "reader", "import", str(file), "--accounts", str(store / "first.csv"))
    assert result.exit_code == 0, result.output
    assert len(list_readers(list_organizations()[0].id)) == 50
    first = credentials(store / "first.csv")
    assert set(first) == {account.name for account in list_accounts()}
    assert (store / "first.csv").stat().st_mode & 0o777 == 0o600
    hashes = (store / "broker" / "passwd").read_text()
    result = edge(store, "renew-passwords", "--yes", "--accounts", str(store / "second.csv"))
    assert result.exit_code == 0, result.output
    second = credentials(store / "second.csv")
    assert set(first) == set(second)
    assert not set(first.values()) & set(second.values())
    changed = [line for line in (store / "broker" / "passwd").read_text().splitlines() if line not in hashes]
    assert len(changed) == 50


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("dock1;site/dock1;edge;NOWHERE;", "Line 3: there is no location NOWHERE"),
        ("dock1;site/dock1;unheard;DOCK-1;", "Line 3: "),
        ("dock1;site/#/x;edge;DOCK-1;", "Line 3: "),
        ("dock0;site/dock1;edge;DOCK-1;", "Line 3: "),
        ("dock1;site/dock1;edge;DOCK-1;weak", "Line 3: A signal strength must be between -150 and 0 dBm"),
    ],
)
def test_one_line_that_cannot_be_added_is_named_and_nothing_is(
    store: Path, organization: int, row: str, message: str
) -> None:
    file = table(store, "dock0;site/dock0;edge;DOCK-1;", row)
    result = edge(store, "reader", "import", str(file), "--accounts", str(store / "out.csv"))
    assert message in str(result.exception)
    assert list_readers(list_organizations()[0].id) == []
    assert not (store / "out.csv").exists()


def test_readers_that_exist_are_changed_and_keep_their_passwords(store: Path, organization: int) -> None:
    edge(store, "reader", "import", str(table(store, "dock0;site/dock0;edge;;")), "--accounts", str(store / "1.csv"))
    hashes = (store / "broker" / "passwd").read_text()
    file = table(store, "dock0;;;DOCK-1;-60")
    result = edge(store, "reader", "import", str(file), "--accounts", str(store / "2.csv"))
    assert "Added 0 readers and changed 1." in result.output
    [reader] = list_readers(organization)
    assert (reader.location_id is None, reader.min_rssi, reader.topic) == (False, -60, "site/dock0")
    assert (credentials(store / "2.csv"), (store / "broker" / "passwd").read_text()) == ({}, hashes)


def test_encoding_separator_and_heading_are_chosen(store: Path, organization: int) -> None:
    file = store / "readers.csv"
    file.write_bytes("Считыватели|склад\nname|topic|format\nВорота|site/gate|edge\n".encode("cp1251"))
    result = edge(store, "reader", "import", str(file), "--accounts", str(store / "1.csv"))
    assert "--encoding cp1251" in str(result.exception)
    assert "Ворота" in str(result.exception)
    options = ("--encoding", "cp1251", "--separator", "bar", "--heading", "2")
    result = edge(store, "reader", "import", str(file), "--accounts", str(store / "1.csv"), *options)
    assert "Added 1 readers" in result.output, result.exception
    assert [reader.name for reader in list_readers(organization)] == ["Ворота"]


def test_a_file_that_is_there_is_not_overwritten(store: Path, organization: int) -> None:
    (store / "out.csv").write_text("precious")
    file = table(store, "dock0;site/dock0;edge;DOCK-1;")
    result = edge(store, "reader", "import", str(file), "--accounts", str(store / "out.csv"))
    assert "Nothing was changed" in str(result.exception)
    assert list_readers(list_organizations()[0].id) == []
