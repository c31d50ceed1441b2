"""Export of a site as one file that later releases can read: a zip of JSON lines with a manifest.

Export and import stream all records. An export gets its final name only when complete. An import builds a separate
database that replaces the present one only when complete and sound.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from edge import __version__, clock
from edge.audit.actors import Actor
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database
from edge.database.instance import sync_folder
from edge.errors import Corrupt, SetupError, Unavailable
from edge.operations import backup, portable_records
from edge.operations.portable_records import Record
from edge.validation import json_text

KIND = "edge export"
_MANIFEST = "manifest.json"
_LONGEST_LINE = 1_048_576  # bytes; the longest record, an asset with its metadata, takes about 70,000
_LONGEST_MANIFEST = 65_536
_KEY_BYTES = 32  # of the key that makes ids
_SPARE = 64 * 1_048_576  # bytes that must stay free on the disk


class Exported(NamedTuple):
    rows: dict[str, int]
    size: int


def write_export(file: Path, number: int = portable_records.FORMAT) -> Exported:
    """Write the records of the open site to `file`, completely or not at all. Raises Conflict on a hub.

    An earlier format `number` leaves out the records that it does not have.
    """
    portable_records.check_exportable(number)
    unfinished = file.with_name(f"{file.name}.part")
    try:
        with unfinished.open("wb") as target:
            os.fchmod(target.fileno(), 0o600)
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                rows = _write(archive, number)
            target.flush()
            os.fsync(target.fileno())
        unfinished.replace(file)
        sync_folder(file.absolute().parent)
    finally:
        unfinished.unlink(missing_ok=True)
    return Exported(rows, file.stat().st_size)


def _write(archive: zipfile.ZipFile, number: int) -> dict[str, int]:
    files: dict[str, dict[str, Any]] = {}
    key, count = portable_records.ids()
    for table, records in portable_records.read_tables(number):
        digest, rows = sha256(), 0
        with archive.open(f"{table}.jsonl", "w", force_zip64=True) as lines:
            for record in records:
                line = json_text.encode(record) + b"\n"
                digest.update(line)
                lines.write(line)
                rows += 1
        files[table] = {"rows": rows, "sha256": digest.hexdigest()}
    manifest = {
        "kind": KIND,
        "format": number,
        "made_by": f"edge {__version__}",
        "made_at": clock.rfc3339(clock.now()),
        "ids": {"key": key.hex(), "count": count},
        "files": files,
    }
    archive.writestr(_MANIFEST, json_text.indented(manifest))
    return {table: about["rows"] for table, about in files.items()}


def import_file(actor: Actor, file: Path, data_dir: Path) -> backup.Restored:
    """Replace this box's database with an export. The service must be stopped. The present database is kept aside.

    Raises SetupError, Corrupt or Unavailable; nothing is changed then.
    """
    return backup.restore_from(actor, data_dir, file.name, lambda fresh: _build(file, fresh))


def _build(file: Path, fresh: Path) -> None:
    scratch = fresh.with_name(f"{fresh.name}.import")
    shutil.rmtree(scratch, ignore_errors=True)  # leftover of an interrupted attempt
    try:
        with _opened(file) as archive:
            manifest = _manifest(archive, file)
            _check_room(archive, fresh.parent)
            scratch.mkdir(mode=0o700)
            migrate.migrate(scratch)
            portable_records.set_id_sequence(bytes.fromhex(manifest["ids"]["key"]), manifest["ids"]["count"])
            portable_records.add(_records(archive, manifest))
            portable_records.finish()
        close_database()
        (scratch / FILE_NAME).replace(fresh)
    except (zipfile.BadZipFile, zlib.error, EOFError, OverflowError) as error:
        raise Corrupt(f"{file.name} is damaged ({error}); copy it here again") from error
    finally:
        close_database()
        shutil.rmtree(scratch, ignore_errors=True)


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise SetupError(f"{file.name} is not an export. Create one: edge export") from error
    except OSError as error:
        raise SetupError(f"{file} cannot be read by the user edge: {error.strerror}") from error


def _manifest(archive: zipfile.ZipFile, file: Path) -> dict[str, Any]:
    try:
        with archive.open(_MANIFEST) as text:
            manifest = json_text.decode(text.read(_LONGEST_MANIFEST))
        number = manifest["format"]
        files, key = manifest["files"], bytes.fromhex(manifest["ids"]["key"])
        is_ours = manifest["kind"] == KIND and type(number) is type(manifest["ids"]["count"]) is int
        is_ours = is_ours and len(key) == _KEY_BYTES
        is_ours = is_ours and isinstance(files, dict) and all(isinstance(about, dict) for about in files.values())
    except (KeyError, TypeError, ValueError) as error:
        raise SetupError(f"{file.name} is not an export. Create one: edge export") from error
    if not is_ours:
        raise SetupError(f"{file.name} is not an export. Create one: edge export")
    if number > portable_records.FORMAT:
        raise SetupError(
            f"{file.name} has format {number}, from {manifest.get('made_by', 'a newer version')}, and this version of "
            f"edge reads formats up to {portable_records.FORMAT}. Install that version or a newer one, then "
            f"import the file."
        )
    if number < 1:
        raise SetupError(f"{file.name} has format {number}, which is not a format of edge")
    return dict(manifest)


def _check_room(archive: zipfile.ZipFile, folder: Path) -> None:
    """Raise Unavailable if the disk is too full. The database takes less than twice the size of its records."""
    needed = 2 * sum(entry.file_size for entry in archive.infolist()) + _SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Unavailable(
            f"{folder} has {free >> 20} MB free and the import needs {needed >> 20} MB; free disk space first"
        )


def _records(archive: zipfile.ZipFile, manifest: dict[str, Any]) -> Iterator[tuple[str, Record]]:
    for table, about in manifest["files"].items():
        digest, rows = sha256(), 0
        for line in _lines(archive, table):
            digest.update(line)
            rows += 1
            yield table, _record(line, table)
        if (rows, digest.hexdigest()) != (about.get("rows"), about.get("sha256")):
            raise Corrupt(f"The records of {table} differ from the exported ones; copy the file here again")


def _lines(archive: zipfile.ZipFile, table: str) -> Iterable[bytes]:
    try:
        entry = archive.open(f"{table}.jsonl")
    except KeyError as error:
        raise Corrupt(f"{table}.jsonl is missing from the export; copy the file here again") from error
    with entry:
        while line := entry.readline(_LONGEST_LINE):
            yield line


def _record(line: bytes, table: str) -> Record:
    try:
        record = json_text.decode(line)
    except json_text.NotJson as error:
        raise Corrupt(f"A record of {table} is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise Corrupt(f"A record of {table} is not a JSON object")
    return record
