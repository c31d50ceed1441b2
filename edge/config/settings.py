"""All settings, as fields of `Config`. Only this package reads the settings file and the environment.

Sources in descending priority: `--set NAME=VALUE`, the environment (`EDGE_MQTT_BROKER`), the TOML file, the default.
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
from edge.config import sources, types
from edge.database.bounds import Bounds
from edge.errors import SetupError
from edge.texts import N_

DEFAULT_USER_AGENTS = (
    "Python-urllib/", "python-requests/", "python-httpx/", "Python/", "aiohttp", "python-urllib3", "urllib3",
    "curl/", "Wget/", "Go-http-client/", "Java/", "Java-http-client/", "Apache-HttpClient", "okhttp/", "axios/",
    "node", "node-fetch", "undici", "libwww-perl", "Ruby",
)  # fmt: skip


SECTIONS = {  # of the settings file
    *("audit", "backup", "events", "http", "hub", "ingest", "labels", "limits", "mqtt", "pages", "rate", "retention"),
    *("security", "sync"),
}


class Change(Enum):
    """Time when a change made on a page or by `edge config change` takes effect."""

    AT_ONCE = "at once"
    AT_RESTART = "at restart"


def _setting(
    default: Any, cast: Callable[[Any], Any], help_text: str, change: Change | None = None, *, is_secret: bool = False
) -> Any:
    """Declare a setting. Without `change` it can be set in the settings file only; a secret is not shown on pages."""
    return field(default=default, metadata={"cast": cast, "help": help_text, "change": change, "is_secret": is_secret})


@dataclass(frozen=True)
class Config:
    data_dir: Path = _setting(Path("data"), types.path, N_("folder of the database and all other data"))
    environment: str = _setting(
        "production",
        types.word("production", "preview"),
        N_("production or preview; credentials are not valid across environments"),
    )
    signing_key_file: Path | None = _setting(
        None,
        types.optional_path,
        N_("file with the key that signs access tokens; empty: signing.key in data_dir, created if missing"),
    )
    log_level: str = _setting(
        "info", types.word("debug", "info", "warning", "error"), N_("minimum severity of log messages")
    )

    http_listen: str = _setting("0.0.0.0:8080", types.address, N_("address and port of pages and API"))
    http_public_url: str = _setting(
        "",
        types.public_url,
        N_("URL of the pages, used in labels and links; empty: the URL that the browser used"),
        Change.AT_ONCE,
    )
    http_access_log: str = _setting(
        "off",
        types.word("off", "text", "json"),
        N_("one line per request with method, path, status, milliseconds, request ID and actor, as text or JSON"),
        Change.AT_ONCE,
    )
    http_threads: int = _setting(8, types.whole(1, 64), N_("worker threads for requests"))
    http_trusted_proxy: str = _setting(
        "", types.text, N_("address of the trusted proxy that sends X-Forwarded-* headers; empty: none")
    )
    http_authority_file: Path | None = _setting(
        None,
        types.optional_path,
        N_("certificate of the authority that issued this box's HTTPS certificate, offered to devices at /certificate"),
    )
    http_metrics_from: tuple[str, ...] = _setting(
        ("127.0.0.0/8", "::1/128"),
        types.networks,
        N_("networks that may read /metrics and the details of /healthz and /readyz"),
    )
    http_blocked_user_agents: tuple[str, ...] = _setting(
        DEFAULT_USER_AGENTS, types.texts, N_("User-Agents of libraries that the API refuses, any version")
    )

    rate_per_second: int = _setting(50, types.whole(1, 1_000_000), N_("requests per second and credential"))
    rate_burst: int = _setting(200, types.whole(1, 1_000_000), N_("requests that a credential may send in a burst"))

    mqtt_broker: str = _setting("embedded", types.broker, N_('"embedded", or the URL of a broker'))
    mqtt_listen: str = _setting("127.0.0.1:1883", types.address, N_("address and port of the embedded broker"))
    mqtt_password_file: Path | None = _setting(
        None, types.optional_path, N_("file with the password of the user in mqtt.broker")
    )
    mqtt_ca_file: Path | None = _setting(
        None, types.optional_path, N_("certificate authority of an mqtts:// broker; empty: those of the system")
    )
    mqtt_accounts_dir: Path | None = _setting(
        None,
        types.optional_path,
        N_("folder for the broker's password and ACL files with the accounts of readers; empty: not written"),
    )
    mqtt_tls_port: int = _setting(
        0,
        types.whole(0, 65535),
        N_("port on which the broker accepts readers with TLS, shown with their accounts; 0: none"),
    )
    mqtt_accept_unencrypted: bool = _setting(False, types.flag, N_("do not warn about readers without encryption"))
    mqtt_client_id: str = _setting(
        "edge",
        types.text,
        "MQTT client id; keep it fixed, because the broker queues messages for it, and secret",
        is_secret=True,
    )
    mqtt_topics: tuple[str, ...] = _setting(
        ("#",), types.texts, N_("subscribed topics; topics without a reader are shown as unassigned")
    )

    ingest_queue: int = _setting(
        6_000, types.whole(100, 1_000_000), N_("messages queued before the broker has to wait")
    )
    ingest_batch: int = _setting(5_000, types.whole(1, 10_000), N_("maximum number of messages per transaction"))
    ingest_sighting_gap_seconds: int = _setting(
        300,
        types.whole(0, 86_400),
        N_("a read after a gap of at least this many seconds starts a new row of history; 0: every read does"),
        Change.AT_ONCE,
    )
    ingest_smoothing: str = _setting(
        "auto",
        types.word("auto", "off"),
        N_("auto: choose between locations that read the same tag by evidence; off: any read elsewhere is a move"),
        Change.AT_RESTART,
    )
    ingest_replay_days: int = _setting(7, types.whole(0, 365), N_("maximum age of a reader's own timestamps, in days"))

    pages_time_zone: str = _setting(
        "",
        types.time_zone,
        N_('time zone of the pages, such as "Europe/Berlin"; empty: time zone of the box'),
        Change.AT_ONCE,
    )
    pages_session_hours: int = _setting(12, types.whole(1, 168), N_("hours until a session expires"), Change.AT_ONCE)
    pages_idle_minutes: int = _setting(
        240,
        types.whole(0, 10_080),
        N_("minutes without use until a session expires, except on enrolled devices; 0: never"),
        Change.AT_ONCE,
    )
    pages_pin_required: bool = _setting(
        False, types.flag, N_("require a PIN in addition to the badge on shared handhelds"), Change.AT_ONCE
    )

    labels_printer_ports: tuple[str, ...] = _setting(
        ("6101", "9100-9109"), types.ports, N_("ports and ranges of ports that label printers may have")
    )

    retention_history_days: int = _setting(
        400, types.whole(1, 36_500), N_("days to keep history, stock-takes and expected lists"), Change.AT_ONCE
    )
    retention_audit_days: int = _setting(
        730, types.whole(1, 36_500), N_("days to keep the audit trail"), Change.AT_ONCE
    )
    retention_alert_days: int = _setting(365, types.whole(1, 36_500), N_("days to keep alerts"), Change.AT_ONCE)
    retention_audit_lines: int = _setting(
        1_000_000,
        types.whole(1_000, 100_000_000),
        N_(
            "maximum number of entries in the audit trail; the author of most entries of the last week loses the oldest"
        ),
    )
    retention_dead_letters: int = _setting(
        1_000, types.whole(0, 100_000), N_("maximum number of dead letters per reader")
    )
    retention_unknown_tags: int = _setting(
        5_000, types.whole(0, 100_000), N_("maximum number of unknown tags per reader")
    )
    retention_unassigned_topics: int = _setting(
        1_000, types.whole(0, 10_000), N_("maximum number of unassigned topics; the longest silent are deleted first")
    )
    retention_raw_mb: int = _setting(
        64,
        types.whole(0, 100_000),
        N_("megabytes for unmatched messages, kept compressed until their tag or reader is set up; 0: none"),
    )
    retention_raw_hours: int = _setting(48, types.whole(1, 8_760), N_("hours to keep unmatched messages"))
    retention_low_disk_mb: int = _setting(
        500,
        types.whole(0, 1_000_000),
        N_("minimum free disk space in MB; below it, the oldest history is deleted"),
        Change.AT_ONCE,
    )

    audit_syslog: str = _setting(
        "",
        types.log_server,
        N_("server that gets each entry of the audit by syslog, such as tls://logs.example:6514; empty: none"),
    )

    security_contact: str = _setting(
        "",
        types.contact,
        N_("whom to tell about vulnerabilities, in security.txt and on the Status page; empty: what the manual says"),
        Change.AT_ONCE,
    )
    security_supported_until: str = _setting(
        "",
        types.day,
        N_("last day of security updates, such as 2029-12-31, as your supplier has promised; empty: not known"),
        Change.AT_ONCE,
    )

    limits_assets: int = _setting(
        1_000_000,
        types.whole(1, 100_000_000),
        N_("maximum number of assets of an organization, except by commands"),
        Change.AT_ONCE,
    )
    limits_locations: int = _setting(
        100_000,
        types.whole(1, 10_000_000),
        N_("maximum number of locations of an organization, except by commands"),
        Change.AT_ONCE,
    )

    backup_dir: Path | None = _setting(None, types.optional_path, N_("folder of backups; empty: backups/ in data_dir"))
    backup_second_dir: Path | None = _setting(
        None, types.optional_path, N_("folder on another disk for a copy of every backup")
    )
    backup_second_recipient: str = _setting(
        "", types.recipient, N_("public key to encrypt these copies with; empty: not encrypted")
    )
    backup_continuous_dir: Path | None = _setting(
        None,
        types.optional_path,
        N_("folder on another drive for a continuous, unencrypted copy, at most seconds behind; empty: none"),
    )
    backup_keep_daily: int = _setting(7, types.whole(1, 1000), N_("number of daily backups to keep"))
    backup_keep_weekly: int = _setting(8, types.whole(0, 1000), N_("number of weekly backups to keep"))

    events_unseen_hours: int = _setting(
        24,
        types.whole(1, 8_760),
        N_("hours without a read after which an asset is reported as asset.unseen"),
        Change.AT_ONCE,
    )
    events_reader_offline_minutes: int = _setting(
        15,
        types.whole(1, 10_080),
        N_("minutes without a message after which a reader is reported as reader.offline"),
        Change.AT_ONCE,
    )
    events_keep_days: int = _setting(
        7, types.whole(1, 90), N_("days to keep events for unreachable receivers and for replay from the live stream")
    )
    events_authority_file: Path | None = _setting(
        None, types.optional_path, N_("additional certificate authorities for receivers of events")
    )

    hub_history: str = _setting(
        "",
        types.text,
        "URL of a PostgreSQL database that keeps the stays of all sites, such as "
        "postgresql://edge@127.0.0.1/edge; empty: this box's own database",
        is_secret=True,
    )

    sync_interval_seconds: int = _setting(
        5, types.whole(1, 3600), N_("seconds between transfers of changes from a site to its hub")
    )
    sync_megabytes_a_day: int = _setting(
        0, types.whole(0, 1_000_000), N_("megabytes that a site may transfer per day (UTC); 0: no limit")
    )
    sync_keep_days: int = _setting(
        14, types.whole(1, 400), N_("days to keep sent changes, in case the hub is restored from a backup")
    )
    sync_megabytes_of_site: int = _setting(
        5_000,
        types.whole(0, 10_000_000),
        N_("megabytes that one site may add to this hub's database in 30 days; 0: no limit"),
        Change.AT_ONCE,
    )
    sync_reserve_mb: int = _setting(
        1_000,
        types.whole(0, 1_000_000),
        N_("free disk space in MB below which this hub takes no new data from sites"),
        Change.AT_ONCE,
    )

    @property
    def backup_folder(self) -> Path:
        return self.backup_dir or self.data_dir / "backups"

    @property
    def has_reader_accounts(self) -> bool:
        """True if edge writes the broker's password and ACL files."""
        return bool(self.mqtt_accounts_dir and self.mqtt_password_file)

    @property
    def record_limits(self) -> dict[str, int]:
        """The maximum number of records of an organization by kind."""
        return {"asset": self.limits_assets, "location": self.limits_locations}

    @property
    def bounds(self) -> Bounds:
        return Bounds(
            unknown_tags=self.retention_unknown_tags,
            dead_letters=self.retention_dead_letters,
            unassigned_topics=self.retention_unassigned_topics,
        )

    @property
    def sighting_gap(self) -> int:
        """The setting `ingest.sighting_gap_seconds` in microseconds."""
        return self.ingest_sighting_gap_seconds * SECOND


def _name_of(attribute: str) -> str:
    """Return the name of a setting: of `http_listen`, it is `http.listen`."""
    section, _, rest = attribute.partition("_")
    return f"{section}.{rest}" if section in SECTIONS else attribute


SETTINGS = {_name_of(item.name): item for item in fields(Config)}  # by name


class Value(NamedTuple):
    """The value of a setting and its source, for `edge config`."""

    name: str
    value: Any
    source: str
    help: str


def load(file: Path | None, environment: Mapping[str, str], flags: Sequence[str] = ()) -> tuple[Config, list[Value]]:
    """Return the settings and the source of each.

    `flags` have the form `NAME=VALUE`. Raises SetupError with the name of the setting and instructions.
    """
    all_sources: dict[str, tuple[Any, str]] = {}
    for source, values in (
        (f"file {file}", sources.from_file(file) if file else {}),
        ("environment", sources.from_environment(environment, list(SETTINGS))),
        ("flag", sources.from_flags(flags)),
    ):
        for name, raw in values.items():
            if name not in SETTINGS:
                raise SetupError(f"{name} ({source}) is not a setting. `edge config` lists all settings.")
            all_sources[name] = (raw, source)

    chosen: dict[str, Any] = {}
    shown: list[Value] = []
    for name, item in SETTINGS.items():
        value, source = item.default, "default"
        if name in all_sources:
            raw, source = all_sources[name]
            try:
                value = item.metadata["cast"](raw)
            except ValueError as error:
                raise SetupError(f"{name} ({source}) is {_without_password(raw)!r}. Write {error}.") from error
        chosen[item.name] = value
        shown.append(Value(name, value, source, item.metadata["help"]))
    return Config(**chosen), shown


def read_secret(file: Path, setting: str) -> str:
    """Read a secret from its file, without the final line break that editors add."""
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{setting}: {file} cannot be read ({error}). Make it readable by the service.") from error


def check_authority(file: Path | None, setting: str) -> None:
    """Raise SetupError if the file contains no certificates."""
    try:
        if file:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:  # ssl.SSLError is an OSError
        raise SetupError(
            f"{setting}: {file} cannot be used ({error}). Use a PEM file of certificates that the service can read."
        ) from error


def _without_password(raw: Any) -> Any:
    return re.sub(r"(://[^:/@]*):.*@", r"\1:…@", raw) if isinstance(raw, str) else raw


def from_process(file: Path | None, flags: Sequence[str]) -> tuple[Config, list[Value]]:
    return load(file, os.environ, flags)
