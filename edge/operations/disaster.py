"""Disaster file: one encrypted file to rebuild this box on another computer (settings, authority, keys, database).

It is never written to disk in the clear: a tar goes through a pipe into age encryption. The manifest comes last, so
that a truncated file is detected.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

from edge import __version__, clock
from edge.errors import Corrupt, SetupError
from edge.operations import encryption
from edge.validation import json_text

KIND = "edge disaster file"
DATABASE = "database.db.gz"
# Settings and authority of a site in /etc/edge, and the keys in the data directory that no backup contains.
SETTINGS = (
    *("edge.toml", "mqtt.password", "signing.key", "https.conf", "authority.crt", "authority.key", "publisher.pub"),
)
KEYS = ("badges.key", "events.key", "sync-secret", "sync-authority.crt")
NAMES = "settings/names"  # how readers and phones reach the box
NEEDED = ("settings/edge.toml", "settings/signing.key", f"data/{DATABASE}")
_MANIFEST = "manifest.json"
_LARGEST = 1_048_576  # bytes, for each file except the database
_CHUNK = 1_048_576


class Names(NamedTuple):
    """Names and addresses of a box in its network."""

    hostname: str = ""
    network_name: str = ""  # without .local
    addresses: Sequence[str] = ()

    def text(self) -> str:
        addresses = " ".join(self.addresses)
        return f"HOSTNAME={self.hostname}\nNETWORK_NAME={self.network_name}\nADDRESSES={addresses}\n"


def pack(settings: Path, data: BinaryIO, target: Path, recipient: str, names: Names) -> list[str]:
    """Write the complete file or nothing. Returns the names of its entries. Raises SetupError if one is missing.

    `data` is a tar stream with the keys and the newest backup. They belong to the service's user, who reads them.
    """
    unfinished = target.with_name(f"{target.name}.part")
    try:
        with unfinished.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            with encryption.encrypting(file, recipient) as stream:
                entries = _write(stream, settings, data, names)
            file.flush()
            os.fsync(file.fileno())
        missing = [name for name in NEEDED if name not in entries]
        if missing:
            raise SetupError(f"{', '.join(missing)} cannot be read, so another box could not replace this one")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return entries


def unpack(file: Path, identity: Path, folder: Path) -> list[str]:
    """Decrypt into settings/ and data/ of an empty folder. Raises SetupError or Corrupt and then leaves nothing."""
    names: dict[str, str] = {}
    for part in ("settings", "data"):
        (folder / part).mkdir(mode=0o700)
    try:
        with encryption.decrypting(file, identity) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            manifest = None
            for member in archive:
                # A sparse file of a few bytes could fill the disk.
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None or member.name not in _allowed():
                    raise Corrupt(f"{file.name} has an unknown file: {member.name[:80]}")
                if member.name == _MANIFEST:
                    manifest = json_text.decode(content.read(_LARGEST))
                else:
                    names[member.name] = _copy(content, folder / member.name)
        if not isinstance(manifest, dict) or manifest.get("kind") != KIND or manifest.get("files") != names:
            raise Corrupt(f"{file.name} is incomplete; copy it here again")
    except (tarfile.TarError, json_text.NotJson, EOFError) as error:
        raise Corrupt(f"{file.name} is damaged ({error}); copy it here again") from error
    except OSError as error:
        raise SetupError(f"{error.filename or file} cannot be read: {error.strerror}") from error
    return list(names)


def _allowed() -> set[str]:
    return {
        _MANIFEST,
        NAMES,
        f"data/{DATABASE}",
        *(f"settings/{name}" for name in SETTINGS),
        *(f"data/{key}" for key in KEYS),
    }


def _write(stream: BinaryIO, settings: Path, data: BinaryIO, names: Names) -> list[str]:
    digests: dict[str, str] = {}
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in SETTINGS:
            if (settings / name).is_file():
                text = (settings / name).read_bytes()
                digests[f"settings/{name}"] = _add(archive, f"settings/{name}", len(text), io.BytesIO(text))
        text = names.text().encode()
        digests[NAMES] = _add(archive, NAMES, len(text), io.BytesIO(text))
        with tarfile.open(fileobj=data, mode="r|") as given:
            for member in given:
                name = Path(member.name).name
                known = name if name in KEYS else DATABASE
                content = given.extractfile(member) if member.isreg() and not member.issparse() else None
                if content and f"data/{known}" not in digests:
                    digests[f"data/{known}"] = _add(archive, f"data/{known}", member.size, content)
        manifest = {
            "kind": KIND,
            "made_by": f"edge {__version__}",
            "made_at": clock.rfc3339(clock.now()),
            "files": digests,
        }
        text = json_text.encode(manifest)
        _add(archive, _MANIFEST, len(text), io.BytesIO(text))
    return list(digests)


class _Digesting:
    """File-like reader for tarfile that computes the checksum on the way."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = sha256()

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._source.read(size)
        self.digest.update(chunk)
        return chunk


def _add(archive: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> str:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    source = _Digesting(content)
    archive.addfile(entry, source)
    return source.digest.hexdigest()


def _copy(content: IO[bytes], target: Path) -> str:
    digest, size = sha256(), 0
    with target.open("xb") as file:
        target.chmod(0o600)
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if size > _LARGEST and target.name != DATABASE:
                raise Corrupt(f"{target.name} is too large")
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()
