"""Mosquitto's files of passwords and permissions: edge reads everything, each reader publishes under its own topic."""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections.abc import Sequence
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from edge.audit.actors import Actor
from edge.errors import Corrupt, SetupError
from edge.readers.broker_accounts import BrokerAccountRow, list_accounts, names_of_sessions, set_account
from edge.validation.topics import DOCTOR_TOPIC, check_filter

_ROUNDS = 101  # mosquitto's default; the passwords are random, so it need not be slow
_NAME = re.compile("[a-z0-9-]{1,64}")
_HASH = re.compile(r"\$7\$[0-9]{1,9}\$[A-Za-z0-9+/=]{4,64}\$[A-Za-z0-9+/=]{4,128}")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # without characters that are easily misread


class Own(NamedTuple):
    """The account of edge itself, as it stands in mqtt.broker and mqtt.password_file."""

    name: str
    password: str


def own_account(broker_url: str, password: str) -> Own:
    return Own(urlsplit(broker_url).username or "edge", password)


def doctor_name(own_name: str) -> str:
    """`edge doctor` has its own account: of two clients with one account, mosquitto disconnects the older."""
    return f"{own_name}-doctor"


def as_doctor(broker_url: str) -> str:
    """The address of the broker with the account of `edge doctor` instead of the service's."""
    parts = urlsplit(broker_url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{doctor_name(own_account(broker_url, '').name)}@{host}").geturl()


def give_account(actor: Actor, reader_id: int, broker: str) -> tuple[BrokerAccountRow, str]:
    """The reader's account at the broker of that address, with a new password, which is seen here only.

    It works once `write_files` has run.
    """
    password, own = new_password(), own_account(broker, "").name
    return set_account(actor, reader_id, new_hash(password), (*names_of_sessions(own), doctor_name(own))), password


def new_password() -> str:
    """100 bits, to be typed into a reader."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))


def hash_for_broker(password: str, salt: bytes) -> str:
    """As mosquitto_passwd writes it: PBKDF2 with SHA-512."""
    digest = pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def new_hash(password: str) -> str:
    return hash_for_broker(password, secrets.token_bytes(12))


def write_files(folder: Path, own: Own) -> bool:
    """Bring the files of the broker up to date; returns whether anything changed.

    `accounts` is written last: a unit of the system waits for it, takes the other two and reloads the broker.
    Raises Corrupt for an account that would add lines of its own to them, and SetupError for a folder that is a link:
    it may lead to files that are not ours.
    """
    if folder.is_symlink():
        raise SetupError(f"{folder} is a link. Remove it; a folder is made there.")
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    accounts = [_checked(account) for account in list_accounts()]
    contents = {
        "passwd": _password_file(own, accounts),
        "acl": _acl_file(own, accounts),
        "shares": f"{shares_of(accounts)}\n",
    }
    changed = [name for name, content in contents.items() if _read(folder / name) != content]
    for name in changed:
        _replace(folder / name, contents[name])
    if changed or not (folder / "accounts").exists():
        _replace(folder / "accounts", "".join(f"{account.name}\n" for account in accounts))
    return bool(changed)


def _checked(account: BrokerAccountRow) -> BrokerAccountRow:
    """The store takes no other names, but a database can come from anywhere, and each of these ends up in a line."""
    if not (_NAME.fullmatch(account.name) and _HASH.fullmatch(account.password_hash)):
        raise Corrupt(
            f"The broker account {account.name!r} is not of edge's making; remove its reader, {account.topic!r}"
        )
    for topic in account.topics:
        check_filter(topic)
    return account


def shares_of(accounts: Sequence[BrokerAccountRow]) -> int:
    """Into how many parts the broker's queue is divided: a power of two, so that it rarely changes."""
    in_use = len({account.session for account in accounts} | {0})
    return 1 << (in_use - 1).bit_length()


def _password_file(own: Own, accounts: list[BrokerAccountRow]) -> str:
    names = [*names_of_sessions(own.name), doctor_name(own.name)]
    lines = [(name, _own_hash(name, own.password)) for name in names]
    lines += [(account.name, account.password_hash) for account in accounts]
    return "".join(f"{name}:{password_hash}\n" for name, password_hash in lines)


def _own_hash(name: str, password: str) -> str:
    """The salt follows from the password, so that the file stays the same while nothing changes."""
    return hash_for_broker(password, sha256(f"{name}:{password}".encode()).digest()[:12])


def _acl_file(own: Own, accounts: list[BrokerAccountRow]) -> str:
    elsewhere = "".join(f"topic deny {topic}\n" for one in accounts if one.is_settled for topic in one.topics)
    blocks = [f"user {own.name}\n{elsewhere}topic read #\ntopic read $SYS/#\ntopic readwrite edge/ping/#\n"]
    for number, name in enumerate(names_of_sessions(own.name)):
        topics = [topic for one in accounts if one.session == number for topic in one.topics]
        if number:
            blocks.append(f"user {name}\n" + "".join(f"topic read {topic}\n" for topic in topics))
    blocks += [f"user {doctor_name(own.name)}\ntopic read $SYS/#\ntopic write {DOCTOR_TOPIC}\n"]
    for account in accounts:
        allowed = "".join(f"topic write {topic}\n" for topic in account.topics)
        blocks.append(f"user {account.name}\n{allowed}")
    return "# Written by edge; changes made here are lost.\n\n" + "\n".join(blocks)


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _replace(path: Path, content: str) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("x", encoding="utf-8") as file:  # never through a link that is there
        file.write(content)
    unfinished.chmod(0o640)
    unfinished.replace(path)
