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
from edge.audit.actors import Actor, shell
from edge.cli import cli
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, column, execute, execute_many, writing
from edge.doors import doors, passage_report
from edge.doors.doors import DoorAntenna
from edge.doors.passage_rule import Direction, Side
from edge.errors import Conflict, Corrupt, EdgeError, SetupError
from edge.expected_lists import expected_lists
from edge.muster import musters, plans
from edge.muster.plans import NewPlan
from edge.operations import portable_file, portable_records
from edge.people import organizations, people
from edge.people.people import Role
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.rules import rules
from edge.rules.channels import channels
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.conditions import Condition
from edge.rules.outputs import forms, outputs
from edge.rules.rules import RuleFields
from edge.sync.store import sites
from edge.tracking import tracked_people
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.api.conftest import sign_up
from tests.application import make_app

START = 1_790_000_000 * clock.SECOND
SAMPLE, SECOND_SAMPLE = (Path(__file__).with_name(f"export-format-{number}.zip") for number in (1, 2))
# Fields change only together with FORMAT: today's release must refuse files it cannot read.
FIELDS_OF_FORMATS = {1: "c9f0", 2: "7f63", 3: "4c67"}
TABLES_LEFT_OUT = "8240"
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
    docks = [locations.create(actor, name=f"Dock {number}", parent_id=hall.id).id for number in range(2)]
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
    _add_rules(actor, docks[0], reader.id)
    return store


def _add_rules(actor: Actor, location_id: int, reader_id: int) -> None:
    """Add a door with a passage, channels with and without a secret, a rule, and expected lists."""
    door = doors.add_door(actor, "Gate", location_id)
    doors.set_antennas(actor, door, [DoorAntenna(Side.INNER, reader_id, 1), DoorAntenna(Side.OUTER, reader_id, 2)])
    with writing():
        execute(
            "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
            "outer_reads, since, until, decided_at) SELECT organization_id, ?, id, ?, 2, 900, 5, 6, ?, ?, ? FROM asset "
            "WHERE name = 'Pallet 3'",
            (door, START, START, START + 9, START + 20),
        )
    for name, kind, stored, secret in (
        ("Phones", "ntfy", {"url": "https://ntfy.example.com/dock"}, None),
        ("Chat", "webhook", {"form": "slack", "host": "chat.example.com"}, b"sealed"),
    ):
        channels.add(actor, NewChannel(kind, name, stored, secret, Schedule(digest=60)))
    numbers = " ".join(str(one.no) for one in channels.list_channels(actor.organization_id))
    horn = outputs.add(
        actor, "Horn", forms.checked({"form": "tasmota", "device": "horn", "relay": "2", "seconds": "5"})
    )
    fields = RuleFields("Out at night", Condition.PASSES, door_id=door, direction="out", channels=numbers)
    rules.add_rule(actor, fields._replace(outputs=str(horn.no)))
    plan = plans.create(actor, NewPlan("Yard", [location_id]))
    with writing():
        execute(
            "INSERT INTO muster "
            "(id, organization_id, plan_id, name, is_drill, started_at, started_by, ended_at, ended_by) "
            "VALUES (1, ?, ?, 'Yard', 1, ?, 'Ann', ?, 'Ann')",
            (actor.organization_id, plan, START, START + 9),
        )
        execute("INSERT INTO muster_point (muster_id, location_id, name) VALUES (1, ?, 'Dock')", (location_id,))
        execute(
            "INSERT INTO muster_person (muster_id, asset_id, asset_key, name, seen_before, result) "
            "SELECT 1, id, external_key, name, 0, 'missing' FROM asset WHERE name = 'Pallet 3'"
        )
        execute(
            "INSERT INTO asset_note (id, organization_id, asset_id, person_id, text, made_at, received_at) "
            "SELECT 'n1', a.organization_id, a.id, p.id, 'Dented', ?, ? FROM asset a, person p "
            "WHERE a.name = 'Pallet 3'",
            (START, START),
        )
    codes = [f"3074257BF7194E40{number:08X}" for number in range(5)]
    for name, is_signed in (("Tour 1", True), ("Tour 2", False)):
        listed = expected_lists.create(actor, name, codes, door_id=door, direction=Direction.OUT)
        expected_lists.start(actor, listed)
        if is_signed:
            version = expected_lists.find_state(actor.organization_id, listed).version
            expected_lists.sign_off(actor, listed, version)


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


def _rules() -> dict[str, Any]:
    """Return doors, rules, channels and expected lists as the pages read them."""
    number = _organization()
    own_doors = doors.list_doors(number)
    signed = expected_lists.signed_lists(number, 10)
    return {
        "doors": [(one, doors.antennas_of(number, one.id)) for one in own_doors],
        "passages": [passage_report.passages_of_door(number, one.id, 10) for one in own_doors],
        "rules": [one._replace(is_seeded=False) for one in rules.list_rules(number)],
        "channels": [(one.no, one.kind, one.name, one.settings, one.network) for one in channels.list_channels(number)],
        "outputs": [one._replace(id=0) for one in outputs.list_outputs(number)],
        "plans": plans.list_plans(number),
        "musters": [musters.find_state(number, one.id) for one in musters.ended_musters(number, 10)],
        "notes": execute("SELECT * FROM asset_note").fetchall(),
        "lists": [expected_lists.find_state(number, one.id) for one in [*expected_lists.open_lists(number), *signed]],
    }


def test_doors_rules_channels_and_expected_lists_are_the_same_after_an_import(used: Path, other: Path) -> None:
    before = _rules()
    assert all(before.values())
    portable_file.write_export(used / "site.zip")
    bring(used / "site.zip", other)
    assert _rules() == before


def test_a_channel_without_its_secret_is_disabled_by_the_import(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    bring(used / "site.zip", other)
    by_name = {one.name: one for one in channels.list_channels(_organization())}
    assert by_name["Chat"].disabled_at is not None
    assert by_name["Chat"].secret == b""
    assert by_name["Phones"].disabled_at is None


def test_an_earlier_format_leaves_out_its_later_records(used: Path, other: Path) -> None:
    """The first release that had an export reads format 1."""
    before = answers()
    portable_file.write_export(used / "site.zip", 1)
    with zipfile.ZipFile(used / "site.zip") as archive:
        manifest = json.loads(archive.read("manifest.json"))
    with zipfile.ZipFile(SAMPLE) as archive:
        first = json.loads(archive.read("manifest.json"))
    assert (manifest["format"], set(manifest["files"])) == (1, set(first["files"]))
    bring(used / "site.zip", other)
    assert answers() == before
    assert execute("SELECT (SELECT count(*) FROM door), (SELECT count(*) FROM rule)").fetchone() == (0, 0)


def _organization() -> int:
    number: int = execute("SELECT id FROM organization").fetchone()[0]
    return number


def test_a_second_export_is_the_same_as_the_first(used: Path, other: Path) -> None:
    portable_file.write_export(used / "site.zip")
    bring(used / "site.zip", other)
    portable_file.write_export(other / "again.zip")
    before, after = _files(used / "site.zip"), _files(other / "again.zip")
    assert before.pop("channel.jsonl") != after.pop("channel.jsonl")  # one lost its secret
    assert after == before


def test_no_secret_is_in_an_export(used: Path) -> None:
    portable_file.write_export(used / "site.zip")
    with zipfile.ZipFile(used / "site.zip") as archive:
        text = b"".join(archive.read(name) for name in archive.namelist())
    assert b"scrypt" not in text
    assert (used / "site.zip").stat().st_mode & 0o077 == 0
    secret = {"password_hash", "pin_hash", "badge_hash", "badge_mark", "token_hash", "secret_hash", "secret"}
    assert not secret & {field for fields in portable_records.fields().values() for field in fields}


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


def _huge_number(files: dict[str, bytes], _: dict[str, Any]) -> None:
    files["history.jsonl"] = files["history.jsonl"].replace(b'"seq":0', b'"seq":1' + b"0" * 30)


def _huge_count(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["ids"]["count"] = 10**30


def _text_as_count(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["ids"]["count"] = "1e9"


def _true_as_format(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["format"] = True


def _short_key(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["ids"]["key"] = "00"


def _odd_files(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
    files.clear()
    manifest["files"]["tag"] = 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *((_huge_number, "is damaged"), (_huge_count, "is damaged"), (_true_as_format, "is not an export")),
        (_text_as_count, "is not an export"),
        *((_short_key, "is not an export"), (_odd_files, "is not an export")),
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
    with zipfile.ZipFile(used / "site.zip") as archive:
        longest = max(archive.infolist(), key=lambda entry: entry.compress_size)
    data = bytearray((used / "site.zip").read_bytes())
    data[longest.header_offset + 100 + longest.compress_size // 2] ^= 0xFF
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
    def full(*_: Any) -> Iterable[Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(portable_file, "_write", full)
    with pytest.raises(OSError, match="No space"):
        portable_file.write_export(used / "site.zip")
    assert not list(used.glob("site.zip*"))


def test_the_export_of_the_first_release_that_had_one_is_read(other: Path) -> None:
    """The file was written by 0.2.0 and must never change."""
    with _closing():
        bring(SAMPLE, other)
        assert execute("SELECT count(*) FROM asset").fetchone() == (30,)
        assert execute("SELECT count(*) FROM history").fetchone() == (120,)
        page = answers()["/assets?q=4006381"]
        assert page["total_count"] == 27


def test_an_export_of_format_2_is_read(other: Path) -> None:
    """The file was written by 0.2.0 and must never change."""
    with _closing():
        bring(SECOND_SAMPLE, other)
        kept = _rules()
        assert [one.name for one, _ in kept["doors"]] == ["Gate"]
        assert [one.fields.name for one in kept["rules"]] == ["Out at night"]
        assert {state.one.name: len(state.lines) for state in kept["lists"]} == {"Tour 1": 5, "Tour 2": 5}
        assert [name for _, _, name, *_ in kept["channels"]] == ["Chat", "Phones"]


def test_people_stay_protected_after_an_import(used: Path, other: Path) -> None:
    metadata = '{"kind":"person"}'
    person = assets.create(shell(_organization()), name="Ann", metadata=metadata).id
    tracked_people.save(shell(_organization()), PeopleSetting(metadata_name="kind", metadata_value="person"))
    portable_file.write_export(used / "site.zip")
    with pytest.raises(Conflict, match="everybody could see"):
        portable_file.write_export(used / "first.zip", 1)
    tracked_people.save(shell(_organization()), PeopleSetting())  # no asset is a person any more
    portable_file.write_export(used / "first.zip", 1)
    bring(used / "site.zip", other)
    assert tracked_people.setting(_organization()).is_hidden_from(Role.VIEWER)
    assert execute("SELECT asset_id FROM tracked_person").fetchall() == [(person,)]


@contextmanager
def _closing() -> Any:
    try:
        yield
    finally:
        close_database()


def test_another_format_has_another_number(used: Path) -> None:
    fingerprint = sha256(repr(portable_records.fields()).encode()).hexdigest()[:4]
    assert FIELDS_OF_FORMATS[portable_records.FORMAT] == fingerprint, (
        "an export has the new column: add it to LEFT_OUT if it is secret or computed, otherwise raise FORMAT"
    )


def test_each_new_table_is_exported_or_left_out_on_purpose(store: Path) -> None:
    every = column("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    left_out = [name for name in every if name not in portable_records.TABLES]
    assert sha256(repr(left_out).encode()).hexdigest()[:4] == TABLES_LEFT_OUT, (
        "add the new table to TABLES and raise FORMAT; note it here only if an imported site does not need it"
    )


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
