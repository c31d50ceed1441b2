"""Encryption with age to the owner's public key, for backups and disaster files that leave the building."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import pyrage

from edge.errors import Corrupt, SetupError


def encrypt(file: Path, target: Path, recipient: str) -> None:
    """Encrypt `file` to the public key `recipient` (age1…). This box cannot decrypt the result. Raises SetupError."""
    key = _recipient(recipient)
    with file.open("rb") as source, target.open("wb") as encrypted:
        pyrage.encrypt_io(source, encrypted, [key])


def _recipient(text: str) -> pyrage.x25519.Recipient:
    """Parse a public key. Raises SetupError."""
    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        raise SetupError(
            f"backup.second_recipient is not an age public key ({error}). Create one: edge backup-key"
        ) from error


@contextmanager
def encrypting(file: BinaryIO, recipient: str) -> Iterator[BinaryIO]:
    """Yield a stream whose content is written to `file` encrypted, never to disk in the clear. Raises SetupError."""
    key = _recipient(recipient)
    with _piped(lambda end: pyrage.encrypt_io(end, file, [key]), is_writing=True) as stream:
        yield stream


@contextmanager
def decrypting(file: Path, identity: Path) -> Iterator[BufferedReader]:
    """Yield the decrypted content of `file` as a stream. Raises SetupError for a wrong key, Corrupt, or OSError."""
    keys = _identities(identity)
    try:
        with (
            file.open("rb") as source,
            _piped(lambda end: pyrage.decrypt_io(source, end, keys), is_writing=False) as stream,
        ):
            yield cast("BufferedReader", stream)
    except pyrage.DecryptError as error:
        raise SetupError(f"{file.name} cannot be decrypted with {identity} ({error})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise Corrupt(f"{file.name} is damaged or incomplete; copy it here again") from error  # as pyrage reports it


@contextmanager
def _piped(work: Callable[[BinaryIO], object], *, is_writing: bool) -> Iterator[BinaryIO]:
    """Yield one end of a pipe while a thread runs `work` on the other end. Errors of the thread are raised here."""
    read, write = os.pipe()
    ours, theirs = (
        (os.fdopen(write, "wb"), os.fdopen(read, "rb"))
        if is_writing
        else (os.fdopen(read, "rb"), os.fdopen(write, "wb"))
    )
    errors: list[Exception] = []

    def run() -> None:
        try:
            with theirs:
                work(theirs)
        except Exception as error:  # noqa: BLE001  raised again in the calling thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ours
    except Exception:
        ours.close()
        thread.join()
        if errors and not isinstance(errors[0], BrokenPipeError):  # this end was closed before the other one's end
            raise errors[0] from None
        raise
    finally:
        ours.close()
        thread.join()
    if errors:
        raise errors[0]


def new_key() -> tuple[str, str]:
    """Return a new private key and its public key, in age's text format."""
    identity = pyrage.x25519.Identity.generate()
    return str(identity), str(identity.to_public())


def _identities(file: Path) -> list[pyrage.x25519.Identity]:
    """Read the private keys in `file`. Other lines are ignored, so the output of `edge backup-key` works as it is."""
    lines = [line.strip() for line in file.read_text("utf-8", "replace").splitlines()]
    keys = [line for line in lines if line.startswith("AGE-SECRET-KEY-")]
    if not keys:
        raise SetupError(f"{file} contains no age private key: AGE-SECRET-KEY-1…")
    try:
        return [pyrage.x25519.Identity.from_str(key) for key in keys]
    except pyrage.IdentityError as error:
        raise SetupError(f"{file} contains no age private key ({error}): AGE-SECRET-KEY-1…") from error
