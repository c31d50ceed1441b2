"""Password and ACL files of mosquitto: edge reads all topics, each reader publishes only on its own."""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.errors import Corrupt, SetupError
from edge.readers.broker_accounts import BrokerAccountRow, list_accounts, names_of_sessions, set_account
from edge.readers.output_topics import DeviceAccount, command_topics, list_device_accounts
from edge.validation.topics import DOCTOR_TOPIC, check_filter, check_plain

RESTART_EVERY = 600 * clock.SECOND
_ROUNDS = 101  # default of mosquitto; sufficient for random passwords
_NAME = re.compile("[a-z0-9-]{1,64}")
_HASH = re.compile(r"\$7\$[0-9]{1,9}\$[A-Za-z0-9+/=]{4,64}\$[A-Za-z0-9+/=]{4,128}")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # without characters that look alike


class OwnAccount(NamedTuple):
    """Account of edge, from mqtt.broker and mqtt.password_file."""

    name: str
    password: str


def own_account(broker_url: str, password: str) -> OwnAccount:
    return OwnAccount(urlsplit(broker_url).username or "edge", password)


def doctor_name(own_name: str) -> str:
    """Return the account name of `edge doctor`. Mosquitto disconnects the older of two clients with one account."""
    return f"{own_name}-doctor"


def log_name(own_name: str) -> str:
    """Return the account name that reads the log of the broker, and nothing else."""
    return f"{own_name}-doctor-log"


def outputs_name(own_name: str) -> str:
    """Return the account name that publishes the commands of outputs, and nothing else."""
    return f"{own_name}-outputs"


def url_of(name: Callable[[str], str], broker_url: str) -> str:
    """Return the URL of the broker with one of these accounts: `url_of(doctor_name, URL)`."""
    url = urlsplit(broker_url)
    host = url.netloc.rpartition("@")[2]
    return url._replace(netloc=f"{name(own_account(broker_url, '').name)}@{host}").geturl()


def issue_account(actor: Actor, reader_id: int, broker: str) -> tuple[BrokerAccountRow, str]:
    """Return the reader's account with a new password, which is not stored in plain text.

    `broker`: URL of the broker. The password is valid after the next `write_files`. Raises NotFound.
    """
    password, own = new_password(), own_account(broker, "").name
    return set_account(actor, reader_id, new_hash(password), reserved_names(own)), password


def reserved_names(own: str) -> tuple[str, ...]:
    """Return the account names that belong to edge. `own`: the name of its main account."""
    return (*names_of_sessions(own), doctor_name(own), log_name(own), outputs_name(own))


def new_password() -> str:
    """Return a password with 100 random bits that is easy to type."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))


def hash_for_broker(password: str, salt: bytes) -> str:
    """Hash a password like mosquitto_passwd: PBKDF2 with SHA-512."""
    digest = pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def new_hash(password: str) -> str:
    return hash_for_broker(password, secrets.token_bytes(12))


def write_files(folder: Path, own: OwnAccount) -> bool:
    """Update the files of the broker. Returns True if anything changed.

    `accounts` is written last: a systemd unit watches it, copies the other files and reloads the broker.
    Raises Corrupt for an account that would inject lines, and SetupError if the folder is a symbolic link.
    """
    if folder.is_symlink():
        raise SetupError(f"{folder} is a link. Remove it; a folder is made there.")
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    accounts = [_checked(account) for account in list_accounts()]
    devices = [_checked_device(device) for device in list_device_accounts()]
    contents = {
        "passwd": _password_file(own, accounts, devices),
        "acl": _acl_file(own, accounts, devices, [check_plain(topic) for topic in command_topics()]),
        "shares": f"{shares_of(accounts)}\n",
    }
    changed = [name for name, content in contents.items() if _read(folder / name) != content]
    for name in changed:
        _replace(folder / name, contents[name])
    if changed or not (folder / "accounts").exists():
        names = [*(account.name for account in accounts), *(device.name for device in devices)]
        _replace(folder / "accounts", "".join(f"{name}\n" for name in names))
    return bool(changed)


def ask_for_restart(folder: Path) -> bool:
    """Ask for a restart of the broker, which deletes retained messages. Returns False within `RESTART_EVERY` of one."""
    file, now = folder / "restart", clock.now()
    asked = _read(file) or ""
    if asked.isdecimal() and abs(now - int(asked)) < RESTART_EVERY:
        return False
    _replace(file, str(now))
    _replace(folder / "accounts", _read(folder / "accounts") or "")  # watched by a systemd unit
    return True


def _checked(account: BrokerAccountRow) -> BrokerAccountRow:
    """Check the name and hash of an account, because the database may come from elsewhere."""
    if not (_NAME.fullmatch(account.name) and _HASH.fullmatch(account.password_hash)):
        raise Corrupt(
            f"The broker account {account.name!r} is not of edge's making; remove its reader, {account.topic!r}"
        )
    for topic in account.topics:
        check_filter(topic)
    return account


def _checked_device(device: DeviceAccount) -> DeviceAccount:
    if not (_NAME.fullmatch(device.name) and _HASH.fullmatch(device.password_hash)):
        raise Corrupt(f"edge did not create the broker account {device.name!r}; remove the output of {device.topic!r}")
    check_plain(device.topic)
    return device


def shares_of(accounts: Sequence[BrokerAccountRow]) -> int:
    """Return the number of shares of the broker's queue: a power of two, so it rarely changes."""
    in_use = len({account.session for account in accounts} | {0})
    return 1 << (in_use - 1).bit_length()


def _password_file(own: OwnAccount, accounts: list[BrokerAccountRow], devices: list[DeviceAccount]) -> str:
    lines = [(name, _own_hash(name, own.password)) for name in reserved_names(own.name)]
    lines += [(account.name, account.password_hash) for account in accounts]
    lines += [(device.name, device.password_hash) for device in devices]
    return "".join(f"{name}:{password_hash}\n" for name, password_hash in lines)


def _own_hash(name: str, password: str) -> str:
    """Derive the salt from the password, which keeps the file unchanged between calls."""
    return hash_for_broker(password, sha256(f"{name}:{password}".encode()).digest()[:12])


def _acl_file(
    own: OwnAccount, accounts: list[BrokerAccountRow], devices: list[DeviceAccount], commands: list[str]
) -> str:
    """Return the permissions. Only one account publishes on the topics `commands` of outputs, and each device reads its
    own.
    """
    settled = [account for account in accounts if account.is_settled]
    elsewhere = "".join(f"topic deny {topic}\n" for account in settled for topic in account.topics)
    elsewhere += "".join(f"topic deny {topic}\n" for topic in commands)
    blocks = [f"user {own.name}\n{elsewhere}topic read #\ntopic read $SYS/#\ntopic readwrite edge/ping/#\n"]
    for number, name in enumerate(names_of_sessions(own.name)):
        topics = [topic for account in accounts if account.session == number for topic in account.topics]
        if number:
            blocks.append(f"user {name}\n" + "".join(f"topic read {topic}\n" for topic in topics))
    blocks += [f"user {doctor_name(own.name)}\ntopic read $SYS/#\ntopic write {DOCTOR_TOPIC}\n"]
    blocks += [f"user {log_name(own.name)}\ntopic read $SYS/broker/log/#\n"]
    switches = "".join(f"topic write {topic}\n" for topic in commands)
    blocks += [f"user {outputs_name(own.name)}\n{switches}"] if commands else []
    blocks += [f"user {device.name}\ntopic read {device.topic}\n" for device in devices]
    for account in accounts:
        allowed = "".join(f"topic write {topic}\n" for topic in account.topics)
        blocks.append(f"user {account.name}\n{allowed}")
    return "# Written by edge; changes made here are lost.\n\n" + "\n".join(blocks)


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _replace(path: Path, content: str) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("x", encoding="utf-8") as file:  # "x" does not follow symbolic links
        file.write(content)
    unfinished.chmod(0o640)
    unfinished.replace(path)
