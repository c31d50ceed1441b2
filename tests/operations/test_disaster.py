"""Disaster file: pack and unpack."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import BinaryIO

import pytest
from click.testing import CliRunner, Result

from edge.cli import cli
from edge.errors import Corrupt, SetupError
from edge.operations import disaster
from edge.operations.disaster import Names
from edge.operations.encryption import encrypt, new_key

SETTINGS = {
    "edge.toml": b"x = 1",
    "signing.key": b"s" * 64,
    "authority.key": b"secret of the authority",
    "answers": b"p",
}
DATABASE = b"\x1f\x8b" + bytes(range(256)) * 20_000
DATA = {"badges.key": b"secret of badges", "edge-20260302T081530Z.db.gz": DATABASE}


def tar_of(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return target.getvalue()


class Box:
    def __init__(self, folder: Path) -> None:
        self.settings, self.file, self.identity = folder / "etc", folder / "box.disaster", folder / "key"
        self.target = folder / "other"
        self.settings.mkdir()
        self.target.mkdir()
        for name, text in SETTINGS.items():
            (self.settings / name).write_bytes(text)
        private, self.recipient = new_key()
        self.identity.write_text(private)

    def pack(self, data: dict[str, bytes] = DATA) -> list[str]:
        return self.pack_stream(io.BytesIO(tar_of(data)))

    def pack_stream(self, data: BinaryIO) -> list[str]:
        names = Names("box1", "edge-hall7", ("192.0.2.7", "2001:db8::7"))
        return disaster.pack(self.settings, data, self.file, self.recipient, names)

    def unpack(self) -> list[str]:
        return disaster.unpack(self.file, self.identity, self.target)

    def of(self, files: dict[str, bytes]) -> None:
        """Write a file with arbitrary content, encrypted to this key."""
        plain = self.file.with_name("plain")
        plain.write_bytes(tar_of(files))
        encrypt(plain, self.file, self.recipient)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_an_import_restores_exactly_the_exported_site(box: Box) -> None:
    assert box.pack() == [
        "settings/edge.toml", "settings/signing.key", "settings/authority.key", "settings/names",
        "data/badges.key", "data/database.db.gz",
    ]  # fmt: skip
    assert box.file.stat().st_mode & 0o777 == 0o600
    assert not any(text in box.file.read_bytes() for text in SETTINGS.values() if len(text) > 4)
    box.unpack()
    assert (box.target / "data/database.db.gz").read_bytes() == DATABASE
    assert (box.target / "data/badges.key").read_bytes() == DATA["badges.key"]
    assert (box.target / "settings/names").read_text().splitlines() == [
        "HOSTNAME=box1", "NETWORK_NAME=edge-hall7", "ADDRESSES=192.0.2.7 2001:db8::7",
    ]  # fmt: skip
    assert (box.target / "settings/authority.key").read_bytes() == SETTINGS["authority.key"]
    assert not (box.target / "settings/answers").exists()
    assert (box.target / "settings/authority.key").stat().st_mode & 0o777 == 0o600


def test_a_file_that_would_not_bring_the_site_back_is_not_written(box: Box) -> None:
    with pytest.raises(SetupError, match=r"data/database\.db\.gz cannot be read"):
        box.pack({"badges.key": b"x"})
    assert not list(box.file.parent.glob("box.disaster*"))


def test_it_needs_the_owners_key(box: Box) -> None:
    box.pack()
    box.identity.write_text(new_key()[0])
    with pytest.raises(SetupError, match="cannot be decrypted"):
        box.unpack()


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_file_that_was_cut_off_or_changed_is_refused(box: Box, part: float) -> None:
    box.pack()
    whole = box.file.read_bytes()
    at = int(len(whole) * part)
    for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
        box.file.write_bytes(damaged)
        for folder in ("settings", "data"):
            for file in (box.target / folder).glob("*"):
                file.unlink()
            if (box.target / folder).exists():
                (box.target / folder).rmdir()
        with pytest.raises(Corrupt, match="is damaged"):
            box.unpack()


@pytest.mark.parametrize(
    "files",
    [
        {"../../etc/passwd": b"x"},
        {"settings/edge.toml": b"x"},
        {"settings/other": b"x"},
        {"manifest.json": b'{"kind": "edge disaster file", "files": {"settings/edge.toml": "00"}}'},
        {"settings/edge.toml": b"x" * 2_000_000},
    ],
    ids=["another folder", "no manifest", "unknown", "other files", "large"],
)
def test_files_of_other_programs_are_refused(box: Box, files: dict[str, bytes]) -> None:
    box.of(files)
    with pytest.raises(Corrupt):
        box.unpack()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.GNUTYPE_SPARSE, tarfile.FIFOTYPE])
def test_links_and_sparse_files_are_refused(box: Box, kind: bytes) -> None:
    """A sparse file of a few bytes could fill the disk."""
    entry = tarfile.TarInfo(f"data/{disaster.DATABASE}")
    entry.type, entry.linkname = kind, "/etc/passwd"
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    if kind == tarfile.GNUTYPE_SPARSE:
        header[483:495] = b"%011o\0" % (1 << 32)  # the size after unpacking
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:512]))
    plain = box.file.with_name("plain")
    plain.write_bytes(bytes(header) + bytes(1024))
    encrypt(plain, box.file, box.recipient)
    with pytest.raises(Corrupt, match="unknown file"):
        box.unpack()
    assert not (box.target / "data" / disaster.DATABASE).exists()


def test_a_sparse_file_of_the_service_is_not_packed(box: Box) -> None:
    """Regression: 2 KB from the service's user filled the disk that root writes to."""
    given = io.BytesIO()
    with tarfile.open(fileobj=given, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("edge-1.db.gz"))
    content = bytearray(given.getvalue())
    content[156:157] = tarfile.GNUTYPE_SPARSE
    content[483:495] = b"%011o\0" % (1 << 20)
    content[148:156] = b"%06o\0 " % (sum(content[:148]) + 8 * 32 + sum(content[156:512]))
    with pytest.raises(SetupError, match=r"database\.db\.gz cannot be read"):
        box.pack_stream(io.BytesIO(bytes(content)))


def edge(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(cli, [*arguments], input=given)


def test_from_a_shell(box: Box) -> None:
    pack = ("disaster-pack", str(box.file), "--settings", str(box.settings))
    said = edge(*pack, given=tar_of(DATA))
    assert "edge backup-key" in str(said.exception)
    names = ("--hostname", "box1", "--network-name", "edge-hall7", "--address", "192.0.2.7")
    said = edge(*pack, "--recipient", box.recipient, *names, given=tar_of(DATA))
    assert "authority.key, names, badges.key, database.db.gz" in said.output, said.exception
    said = edge("disaster-unpack", str(box.file), str(box.target), "--identity", str(box.identity))
    assert "data/database.db.gz" in said.output, said.exception
