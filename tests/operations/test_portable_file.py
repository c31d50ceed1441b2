"""Export and import of a site, across boxes and releases."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edge import clock
from edge.audit.actors import shell
from edge.cli import cli
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute, execute_many, writing
from edge.errors import Conflict, Corrupt, EdgeError, SetupError
from edge.operations import portable_file, portable_records
from edge.operations.portable_records import Record
from edge.people import organizations, people
from edge.readers import readers
from edge.records import assets, locations
from edge.records.location_tree import UNSET, Parent
from edge.records.tags import NewTag
from edge.sync.store import sites
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import sign_up
from tests.application import make_app

START = 1_790_000_000 * clock.SECOND
SAMPLE = Path(__file__).with_name("export-format-1.zip")
# Change FIELDS only together with FORMAT: today's release must refuse files it cannot read.
FIELDS_OF_FORMATS = {1: "c9f0"}
PATHS = (
    "/assets?limit=200&include_deleted=true",
    "/assets?q=pallet",
    "/assets?q=4006381",
    "/locations?limit=200&include_deleted=true",
    "/reports/asset-locations?limit=200",
)


@pytest.fixture
def used(store: Path) -> Path:
    """Return a site with records of every kind in the API."""
    organization_id = organizations.add_organization(shell(), "Acme").id
    actor = shell(organization_id)
    hall = locations.create(actor, name="Hall", external_key="HALL")
    docks = [locations.create(actor, name=f"Dock {number}", parent=Parent(hall.id, UNSET)).id for number in range(2)]
    person = people.add_person(
        actor, "Ann", people.Role.OPERATOR, email="ann@example.com", password_hash="scrypt:secret"
    )
    reader = readers.add_reader(actor, name="dock", topic="site/dock/reads", format="csl", location_id=docks[0])
    for number in range(30):
        asset = assets.create(
            actor,
            name=f"Pallet {number}",
            metadata='{"weight":1.50,"text":"é"}',
            tags=[NewTag("rfid", f"3074257BF7194E40{number:08X}"), NewTag("barcode", f"4006381{number:06}")],
        )
        scans = [
            Scan(organization_id, asset.id, docks[turn % 2], reader.id, 1, at, at, Quality.READER)
            for turn in range(4)
            for at in [START + (number + 100 * turn) * 60 * clock.SECOND]
        ]
        record(scans, 0)
        if number % 10 == 9:
            assets.delete(actor, asset.id)
    assert person
    return store


@pytest.fixture
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("other")


def answers() -> dict[str, Any]:
    """Return all API responses about the site."""
    organization_id = execute("SELECT id FROM organization").fetchone()[0]
    api = sign_up(make_app().test_client(), organization_id)
    ids = [row[0] for row in execute("SELECT id FROM asset WHERE deleted_at IS NULL ORDER BY id")]
    paths = (*PATHS, *(f"/assets/{asset_id}/history?limit=200" for asset_id in ids))
    return {path: api.get(path).json for path in paths}


def bring(file: Path, folder: Path) -> None:
    close_database()
    portable_file.import_file(shell(), file, folder)
    migrate.migrate(folder)


def test_the_api_of_another_box_answers_the_same_after_an_import(used: Path, other: Path) -> None:
    before = answers()
    made = portable_file.write_export(used / "site.zip")
    assert (made.rows["asset"], made.rows["history"]) == (30, 120)
    bring(used / "site.zip", other)
    assert answers() == before
    assert [person.email for person in people.list_people(_organization())] == ["ann@example.com"]
    assert [reader.topic for reader in readers.list_readers(_organization())] == ["site/dock/reads"]


def _organization() -> int:
    number: int = execute("SELECT id FROM organization").fetchone()[0]
    return number


def test_a_second_export_is_the_same_as_the_first(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    bring(used / "site.zip", other)
    portable_file.write_export(other / "again.zip")
    assert _files(other / "again.zip") == _files(used / "site.zip")


def test_no_secret_is_in_an_export(used: Path) -> None:
    portable_file.write_export(used / "site.zip")
    with zipfile.ZipFile(used / "site.zip") as archive:
        text = b"".join(archive.read(name) for name in archive.namelist())
    assert b"scrypt" not in text
    assert (used / "site.zip").stat().st_mode & 0o077 == 0
    secret = {"password_hash", "pin_hash", "badge_hash", "badge_mark", "token_hash", "secret_hash", "secret"}
    assert not secret & {field for fields in portable_records.FIELDS.values() for field in fields}


def test_ids_of_the_exported_box_are_never_assigned_again(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    later = assets.create(shell(_organization()), name="Later").id
    bring(used / "site.zip", other)
    assert later not in [assets.create(shell(_organization()), name=f"New {number}").id for number in range(50)]


def test_the_present_database_is_kept_aside(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    close_database()
    done = portable_file.import_file(shell(), used / "site.zip", used)
    assert done.previous_database is not None
    assert done.previous_database.exists()


@pytest.mark.parametrize("rows", [5_000, 40_000])
def test_memory_does_not_grow_with_the_history(used: Path, other: Path, rows: int) -> None:
    with writing():
        execute_many(
            "INSERT INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality) "
            "VALUES (1, ?, 0, 0, 1, 0, 0)",
            ((number,) for number in range(rows)),
        )
    tracemalloc.start()
    portable_file.write_export(used / "site.zip")
    bring(used / "site.zip", other)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000


def _files(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != "manifest.json"}


def changed(file: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> Path:
    """Rewrite an export with changed files and manifest, and valid checksums and counts."""
    files = _files(file)
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    change(files, manifest)
    for name, text in files.items():
        manifest["files"].setdefault(name.removesuffix(".jsonl"), {}).update(
            {"rows": text.count(b"\n"), "sha256": sha256(text).hexdigest()}
        )
    target = file.with_name("changed.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, text)
    return target


def _newer(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["format"] = 99


def _unknown_field(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["asset.jsonl"] = files["asset.jsonl"].replace(b'"name"', b'"nickname"')


def _unknown_table(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["api_key.jsonl"] = b'{"id": "x"}\n'


def _no_organization(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["organization.jsonl"] = b""


def _not_json(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["tag.jsonl"] += b"[1, 2]\n"


def _nested(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["tag.jsonl"] = (
        files["tag.jsonl"].replace(b'"value":"', b'"value":["', 1).replace(b'","created', b'"],"created', 1)
    )


def _wrong_type(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["history.jsonl"] = files["history.jsonl"].replace(b'"seq":0', b'"seq":"many"')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_newer, "format 99, from edge .* Install that version or a newer one"),
        (_unknown_field, "unknown fields of asset: nickname"),
        (_unknown_table, "unknown records: api_key"),
        (_no_organization, "refer to rows that do not exist"),
        (_not_json, "not a JSON object"),
        (_nested, "neither text nor a number"),
        (_wrong_type, "history"),
    ],
)
def test_what_cannot_be_imported_is_named_and_nothing_is_changed(
    used: Path, other: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None], said: str
) -> None:
    portable_file.write_export(used / "site.zip")
    close_database()
    with pytest.raises(EdgeError, match=said):
        portable_file.import_file(shell(), changed(used / "site.zip", change), other)
    assert list(other.iterdir()) == []


def test_a_damaged_file_is_refused(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    close_database()
    data = bytearray((used / "site.zip").read_bytes())
    data[len(data) // 3] ^= 0xFF
    (used / "site.zip").write_bytes(data)
    with pytest.raises(Corrupt):
        portable_file.import_file(shell(), used / "site.zip", other)
    (used / "site.zip").write_bytes(b"something else")
    with pytest.raises(SetupError, match="is not an export"):
        portable_file.import_file(shell(), used / "site.zip", other)
    assert list(other.iterdir()) == []


def test_an_import_that_was_cut_off_is_begun_again(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    (other / f"{FILE_NAME}.restore.import").mkdir()
    (other / f"{FILE_NAME}.restore.import" / FILE_NAME).write_bytes(b"half of it")
    bring(used / "site.zip", other)
    assert execute("SELECT count(*) FROM asset").fetchone() == (30,)
    assert [path.name for path in other.iterdir() if "import" in path.name] == []


def test_a_full_disk_leaves_no_half_of_an_export(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Any) -> Iterable[Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(portable_file, "_write", full)
    with pytest.raises(OSError, match="No space"):
        portable_file.write_export(used / "site.zip")
    assert not list(used.glob("site.zip*"))


def test_an_export_of_an_older_format_is_converted(used: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated later release renames a pallet and splits each person into two records."""
    portable_file.write_export(used / "site.zip")

    def convert(table: str, record: Record) -> Iterable[tuple[str, Record]]:
        if table == "asset":
            record["name"] = record["name"].upper()
        return [] if table == "person" else [(table, record)]

    monkeypatch.setattr(portable_records, "FORMAT", portable_records.FORMAT + 1)
    monkeypatch.setitem(portable_records.CONVERTERS, portable_records.FORMAT - 1, convert)
    bring(used / "site.zip", other)
    assert execute("SELECT min(name) FROM asset").fetchone() == ("PALLET 0",)
    assert execute("SELECT count(*) FROM person").fetchone() == (0,)


def test_the_export_of_the_first_release_that_had_one_is_read(other: Path) -> None:
    """The file was written by 0.2.0 and must never change."""
    with _closing():
        bring(SAMPLE, other)
        assert execute("SELECT count(*) FROM asset").fetchone() == (30,)
        assert execute("SELECT count(*) FROM history").fetchone() == (120,)
        page = answers()["/assets?q=4006381"]
        assert page["total_count"] == 27


@contextmanager
def _closing() -> Any:
    try:
        yield
    finally:
        close_database()


def test_another_format_has_another_number() -> None:
    fingerprint = sha256(repr(portable_records.FIELDS).encode()).hexdigest()[:4]
    assert FIELDS_OF_FORMATS[portable_records.FORMAT] == fingerprint, "raise FORMAT, add a converter, and note it here"


def test_a_hub_is_exported_at_its_sites(used: Path) -> None:
    actor = shell(_organization())
    sites.make_hub(shell())
    sites.add_site(actor, "BER", "Berlin", b"hash")
    with pytest.raises(Conflict, match="at each site"):
        portable_file.write_export(used / "site.zip")


def edge(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--set", f"data_dir={data}", *arguments])


def test_export_and_import_from_a_shell(used: Path, other: Path) -> None:
    close_database()
    result = edge(used, "export", str(used / "site.zip"))
    assert "30 assets, 3 locations, 60 tags, 1 readers, 1 people, 120 rows of history" in result.output
    result = edge(other, "import", "--yes", str(used / "site.zip"))
    assert "Imported" in result.output, result.output
    assert "edge user add" in result.output
