"""Every setting of the program, in one table; the only reader of the settings file and of the environment.

A value comes from, strongest first: `--set NAME=VALUE`, the environment (`EDGE_MQTT_BROKER`), the TOML file, the
default. The fields of Config are the table.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from edge.clock import SECOND
from edge.config import sources as config_sources
from edge.config import types
from edge.errors import SetupError

DEFAULT_USER_AGENTS = (
    "Python-urllib/", "python-requests/", "python-httpx/", "Python/", "aiohttp", "python-urllib3", "urllib3",
    "curl/", "Wget/", "Go-http-client/", "Java/", "Java-http-client/", "Apache-HttpClient", "okhttp/", "axios/",
    "node", "node-fetch", "undici", "libwww-perl", "Ruby",
)  # fmt: skip


class Change(Enum):
    """When a change made on a page or by `edge config change` takes effect."""

    AT_ONCE = "at once"
    AT_RESTART = "at restart"


def _setting(
    name: str,
    default: Any,
    cast: Callable[[Any], Any],
    help_text: str,
    change: Change | None = None,
    *,
    is_secret: bool = False,
) -> Any:
    """Declare a setting. Without `change` it can be set in the settings file only; a secret is not shown on pages."""
    metadata = {"name": name, "cast": cast, "help": help_text, "change": change, "is_secret": is_secret}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config:
    data_dir: Path = _setting(
        "data_dir", Path("data"), types.path, "folder of the database and everything else that is kept"
    )
    environment: str = _setting(
        "environment",
        "production",
        types.word("production", "preview"),
        "credentials of one environment fail on the other",
    )
    signing_key_file: Path | None = _setting(
        "signing_key_file",
        None,
        types.optional_path,
        "file with the key that signs access tokens; empty: signing.key in data_dir, created when missing",
    )
    log_level: str = _setting(
        "log_level", "info", types.word("debug", "info", "warning", "error"), "how much is logged"
    )

    http_listen: str = _setting("http.listen", "0.0.0.0:8080", types.address, "where pages and API are served")
    http_public_url: str = _setting(
        "http.public_url",
        "",
        types.public_url,
        "address that labels and links carry, as people open the pages; empty: what the browser used",
        Change.AT_ONCE,
    )
    http_access_log: str = _setting(
        "http.access_log",
        "off",
        types.word("off", "text", "json"),
        "one line per request with method, path, status, milliseconds, request ID and actor, as text or JSON",
        Change.AT_ONCE,
    )
    http_threads: int = _setting("http.threads", 8, types.whole(1, 64), "threads that answer requests")
    http_trusted_proxy: str = _setting(
        "http.trusted_proxy",
        "",
        types.text,
        "address of the proxy whose X-Forwarded-* headers are believed; empty: none",
    )
    http_authority_file: Path | None = _setting(
        "http.authority_file",
        None,
        types.optional_path,
        "certificate of the authority behind this box's HTTPS, offered to devices at /certificate",
    )
    http_metrics_from: tuple[str, ...] = _setting(
        "http.metrics_from",
        ("127.0.0.0/8", "::1/128"),
        types.networks,
        "networks that may read /metrics, and the details of /healthz and /readyz",
    )
    http_blocked_user_agents: tuple[str, ...] = _setting(
        "http.blocked_user_agents",
        DEFAULT_USER_AGENTS,
        types.texts,
        "User-Agents of libraries, with any version, that the API refuses",
    )

    rate_per_second: int = _setting(
        "rate.per_second", 50, types.whole(1, 1_000_000), "requests a second for each credential"
    )
    rate_burst: int = _setting("rate.burst", 200, types.whole(1, 1_000_000), "requests a credential may save up")

    mqtt_broker: str = _setting("mqtt.broker", "embedded", types.broker, '"embedded", or the address of a broker')
    mqtt_listen: str = _setting("mqtt.listen", "127.0.0.1:1883", types.address, "where the embedded broker listens")
    mqtt_password_file: Path | None = _setting(
        "mqtt.password_file", None, types.optional_path, "file with the password of the user in mqtt.broker"
    )
    mqtt_ca_file: Path | None = _setting(
        "mqtt.ca_file",
        None,
        types.optional_path,
        "certificate authority of an mqtts:// broker; empty: the system's",
    )
    mqtt_accounts_dir: Path | None = _setting(
        "mqtt.accounts_dir",
        None,
        types.optional_path,
        "where the broker's password and ACL files are written for the readers; empty: nowhere",
    )
    mqtt_tls_port: int = _setting(
        "mqtt.tls_port",
        0,
        types.whole(0, 65535),
        "port on which the broker accepts readers over TLS, shown with their accounts; 0: none",
    )
    mqtt_client_id: str = _setting(
        "mqtt.client_id",
        "edge",
        types.text,
        "fixed, since the broker keeps messages under this name; to be kept secret",
        is_secret=True,
    )
    mqtt_topics: tuple[str, ...] = _setting(
        "mqtt.topics",
        ("#",),
        types.texts,
        "what is subscribed to; topics of no reader are shown as not set up",
    )

    ingest_queue: int = _setting(
        "ingest.queue", 6_000, types.whole(100, 1_000_000), "messages held before the broker must wait"
    )
    ingest_batch: int = _setting("ingest.batch", 3_000, types.whole(1, 10_000), "messages in one transaction, at most")
    sighting_gap_seconds: int = _setting(
        "ingest.sighting_gap_seconds",
        300,
        types.whole(0, 86_400),
        "after an asset was unseen for this long, its next read is a row of history; 0: every read is",
        Change.AT_ONCE,
    )
    smoothing: str = _setting(
        "ingest.smoothing",
        "auto",
        types.word("auto", "off"),
        "auto: the evidence decides between locations that read the same tag; off: every read elsewhere is a move",
        Change.AT_RESTART,
    )
    replay_days: int = _setting("ingest.replay_days", 7, types.whole(0, 365), "how old a reader's own time may be")

    time_zone: str = _setting(
        "pages.time_zone",
        "",
        types.time_zone,
        'time zone of the pages, like "Europe/Berlin"; empty: that of the box',
        Change.AT_ONCE,
    )
    session_hours: int = _setting(
        "pages.session_hours", 12, types.whole(1, 168), "how long a sign-in lasts", Change.AT_ONCE
    )
    pin_required: bool = _setting(
        "pages.pin_required",
        False,
        types.flag,
        "on a shared handheld, ask for a PIN in addition to the badge",
        Change.AT_ONCE,
    )

    history_days: int = _setting(
        "retention.history_days",
        400,
        types.whole(1, 36_500),
        "how long history and stock-takes are kept",
        Change.AT_ONCE,
    )
    audit_days: int = _setting(
        "retention.audit_days",
        730,
        types.whole(1, 36_500),
        "how long the audit (who changed what) is kept",
        Change.AT_ONCE,
    )
    audit_lines: int = _setting(
        "retention.audit_lines",
        1_000_000,
        types.whole(1_000, 100_000_000),
        "how many changes the audit keeps; the oldest go first",
    )
    dead_letters: int = _setting(
        "retention.dead_letters",
        1_000,
        types.whole(0, 100_000),
        "unreadable messages kept for each reader",
    )
    unknown_tags: int = _setting(
        "retention.unknown_tags", 5_000, types.whole(0, 100_000), "unknown tags kept for each reader"
    )
    unassigned_topics: int = _setting(
        "retention.unassigned_topics",
        1_000,
        types.whole(0, 10_000),
        "topics of no reader that are kept; the longest silent go first",
    )
    raw_mb: int = _setting(
        "retention.raw_mb",
        64,
        types.whole(0, 100_000),
        "space for messages that did not count, kept compressed until their tag or reader is set up; 0: none",
    )
    raw_hours: int = _setting("retention.raw_hours", 48, types.whole(1, 8_760), "how long those messages are kept")
    low_disk_mb: int = _setting(
        "retention.low_disk_mb",
        500,
        types.whole(0, 1_000_000),
        "below this much free, the oldest history is dropped",
        Change.AT_ONCE,
    )

    backup_dir: Path | None = _setting(
        "backup.dir", None, types.optional_path, "where backups are kept; empty: backups/ in data_dir"
    )
    backup_second_dir: Path | None = _setting(
        "backup.second_dir",
        None,
        types.optional_path,
        "a folder on another disk that gets a copy of every backup",
    )
    backup_second_recipient: str = _setting(
        "backup.second_recipient",
        "",
        types.recipient,
        "public key those copies are encrypted to; empty: not encrypted",
    )
    backup_continuous_dir: Path | None = _setting(
        "backup.continuous_dir",
        None,
        types.optional_path,
        "a folder on another drive that every change follows to within seconds, not encrypted; empty: none",
    )
    backup_daily: int = _setting(
        "backup.keep_daily", 7, types.whole(1, 1000), "days of which the newest backup is kept"
    )
    backup_weekly: int = _setting(
        "backup.keep_weekly", 8, types.whole(0, 1000), "weeks of which the newest backup is kept"
    )

    events_unseen_hours: int = _setting(
        "events.unseen_hours",
        24,
        types.whole(1, 8_760),
        "an asset that was not seen for this long is reported as asset.unseen",
        Change.AT_ONCE,
    )
    events_reader_offline_minutes: int = _setting(
        "events.reader_offline_minutes",
        15,
        types.whole(1, 10_080),
        "a reader that was not heard for this long is reported as reader.offline",
        Change.AT_ONCE,
    )
    events_keep_days: int = _setting(
        "events.keep_days",
        7,
        types.whole(1, 90),
        "how long events wait for a receiver that is away, and can be read again from the live stream",
    )
    events_authority_file: Path | None = _setting(
        "events.authority_file",
        None,
        types.optional_path,
        "certificate authorities that are trusted for receivers of events, beside the system's",
    )

    sync_interval_seconds: int = _setting(
        "sync.interval_seconds", 5, types.whole(1, 3600), "how often a site sends its hub what is new"
    )
    sync_megabytes_a_day: int = _setting(
        "sync.megabytes_a_day",
        0,
        types.whole(0, 1_000_000),
        "what a site may send and fetch in a day (UTC); 0: no limit",
    )
    sync_keep_days: int = _setting(
        "sync.keep_days",
        14,
        types.whole(1, 400),
        "how long a site remembers what it has sent, in case the hub is restored",
    )

    @property
    def backup_folder(self) -> Path:
        return self.backup_dir or self.data_dir / "backups"

    @property
    def has_reader_accounts(self) -> bool:
        """True if edge writes the broker's password and ACL files."""
        return bool(self.mqtt_accounts_dir and self.mqtt_password_file)

    @property
    def sighting_gap(self) -> int:
        """Microseconds; see `ingest.sighting_gap_seconds`."""
        return self.sighting_gap_seconds * SECOND


class Value(NamedTuple):
    """One setting as it came out: for `edge config`."""

    name: str
    value: Any
    source: str
    help: str


def load(file: Path | None, environment: Mapping[str, str], flags: Sequence[str] = ()) -> tuple[Config, list[Value]]:
    """The settings in force, and for each where it came from.

    `flags` are `NAME=VALUE`. Raises SetupError with the name of the setting and what to write.
    """
    casts = {item.metadata["name"]: item for item in fields(Config)}
    sources: dict[str, tuple[Any, str]] = {}
    for source, values in (
        (f"file {file}", config_sources.from_file(file) if file else {}),
        ("environment", config_sources.from_environment(environment, list(casts))),
        ("flag", config_sources.from_flags(flags)),
    ):
        for name, raw in values.items():
            if name not in casts:
                raise SetupError(f"{name} ({source}) is not a setting. `edge config` lists them all.")
            sources[name] = (raw, source)

    chosen: dict[str, Any] = {}
    shown: list[Value] = []
    for name, item in casts.items():
        value, source = item.default, "default"
        if name in sources:
            raw, source = sources[name]
            try:
                value = item.metadata["cast"](raw)
            except ValueError as error:
                raise SetupError(f"{name} ({source}) is {_without_password(raw)!r}. Write {error}.") from error
        chosen[item.name] = value
        shown.append(Value(name, value, source, item.metadata["help"]))
    return Config(**chosen), shown


def read_secret(file: Path, setting: str) -> str:
    """A secret kept in a file of its own, without the line end an editor adds."""
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{setting}: {file} cannot be read ({error}). Make it readable for the service.") from error


def check_authority(file: Path | None, setting: str) -> None:
    """Raises SetupError for a file without certificates."""
    try:
        if file:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:  # also what TLS says of the content
        raise SetupError(
            f"{setting}: {file} cannot be used ({error}). Name a file of certificates in PEM, readable for the service."
        ) from error


def _without_password(raw: Any) -> Any:
    return re.sub(r"(://[^:/@]*):.*@", r"\1:…@", raw) if isinstance(raw, str) else raw


def from_process(file: Path | None, flags: Sequence[str]) -> tuple[Config, list[Value]]:
    return load(file, os.environ, flags)
