"""What was heard, for the people who set readers up: states, ledgers, topics of nobody, unknown tags, dead letters."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.errors import NotFound
from edge.store.accounts import hour_of
from edge.store.database import execute, reading, writing
from edge.store.readers import get_reader


class ReaderState(NamedTuple):
    """`messages` and `reads` are those of the last `minutes`: this hour and the one before, or since it was set up."""

    id: int
    name: str
    topic: str
    format: str
    is_on: bool
    location_id: int | None
    location_name: str | None
    last_heard_at: int | None
    last_read_at: int | None
    clock_offset: int | None
    qos: int | None
    note: str | None
    is_offline: bool
    messages: int
    reads: int
    minutes: int


class Hour(NamedTuple):
    """One hour of a reader's ledger: (messages, reads) in each bucket."""

    starts_at: int
    buckets: dict[str, tuple[int, int]]

    @property
    def messages(self) -> int:
        return sum(messages for messages, _ in self.buckets.values())

    @property
    def reads(self) -> int:
        return sum(reads for _, reads in self.buckets.values())


class AntennaState(NamedTuple):
    """`is_own` when the antenna has settings of its own; else it is what its reader says."""

    port: int
    is_own: bool
    location_id: int | None
    location_name: str | None
    min_rssi: float | None
    is_on: bool
    last_read_at: int | None


class Topic(NamedTuple):
    topic: str
    first_heard_at: int
    last_heard_at: int
    messages: int
    sample: bytes


class UnknownTag(NamedTuple):
    tag_type: str
    value: str
    match_key: str
    reason: str
    reader_id: int
    reader_name: str | None
    location_name: str | None
    first_seen_at: int
    last_seen_at: int
    sightings: int


class DeadLetter(NamedTuple):
    no: int
    reader_id: int | None
    reader_name: str | None
    topic: str
    payload: bytes  # in a list only its beginning
    size: int
    reason: str
    received_at: int


_STATES = """
SELECT r.id, r.name, r.topic, r.format, r.is_on, l.id, l.name, s.last_heard_at, s.last_read_at, s.clock_offset, s.qos,
       s.note, ifnull(s.is_offline, 0), ifnull(sum(b.messages), 0), ifnull(sum(b.reads), 0),
       max(1, (:now - max(:since, r.created_at)) / 60000000)
FROM reader r
LEFT JOIN location l ON l.id = r.location_id AND l.deleted_at IS NULL
LEFT JOIN reader_state s ON s.reader_id = r.id
LEFT JOIN ledger b ON b.reader_id = r.id AND b.hour >= :since / 3600000000
WHERE r.organization_id = :organization_id AND r.deleted_at IS NULL
GROUP BY r.id ORDER BY r.name
"""


def reader_states(organization_id: int) -> list[ReaderState]:
    now = clock.now()
    since = (hour_of(now) - 1) * clock.HOUR
    found = execute(_STATES, {"organization_id": organization_id, "now": now, "since": since})
    return [ReaderState._make(row) for row in found.fetchall()]


def ledger(organization_id: int, reader_id: int, hours: int = 24) -> list[Hour]:
    """The newest hour first; hours without a message are left out. Raises NotFound."""
    get_reader(organization_id, reader_id)
    found: dict[int, dict[str, tuple[int, int]]] = {}
    rows = execute(
        "SELECT hour, bucket, messages, reads FROM ledger WHERE reader_id = ? AND hour > ? ORDER BY hour DESC, bucket",
        (reader_id, hour_of(clock.now()) - hours),
    )
    for hour, bucket, messages, reads in rows:
        found.setdefault(hour, {})[bucket] = (messages, reads)
    return [Hour(hour * clock.HOUR, buckets) for hour, buckets in found.items()]


_ANTENNAS = """
WITH port (port) AS (
    SELECT port FROM antenna WHERE reader_id = :id UNION SELECT port FROM antenna_state WHERE reader_id = :id
)
SELECT port.port, a.port IS NOT NULL, l.id, l.name, ifnull(a.min_rssi, r.min_rssi), ifnull(a.is_on, 1) AND r.is_on,
       s.last_read_at
FROM port
JOIN reader r ON r.id = :id
LEFT JOIN antenna a ON a.reader_id = :id AND a.port = port.port
LEFT JOIN antenna_state s ON s.reader_id = :id AND s.port = port.port
LEFT JOIN location l ON l.id = ifnull(a.location_id, r.location_id) AND l.deleted_at IS NULL
ORDER BY port.port
"""


def antennas(organization_id: int, reader_id: int) -> list[AntennaState]:
    """Those that are set up, and those that read something; port 0 is a reader without antennas. Raises NotFound."""
    get_reader(organization_id, reader_id)
    return [AntennaState(*row) for row in execute(_ANTENNAS, {"id": reader_id})]


def topics(limit: int = 200) -> list[Topic]:
    """Heard, but no reader claims them; they belong to nobody yet, so only administrators may look."""
    rows = execute(
        "SELECT topic, first_heard_at, last_heard_at, messages, sample FROM unclaimed_topic "
        "ORDER BY last_heard_at DESC LIMIT ?",
        (limit,),
    )
    return [Topic(*row) for row in rows]


def find_topic(topic: str) -> Topic | None:
    columns = "topic, first_heard_at, last_heard_at, messages, sample"
    row = execute(f"SELECT {columns} FROM unclaimed_topic WHERE topic = ?", (topic,)).fetchone()  # noqa: S608
    return Topic(*row) if row else None


_UNKNOWN = """
SELECT u.tag_type, u.value, u.match_key, u.reason, u.reader_id, r.name, l.name, u.first_seen_at, u.last_seen_at,
       u.sightings
FROM unknown_tag u
LEFT JOIN reader r ON r.id = u.reader_id AND r.organization_id = u.organization_id
LEFT JOIN location l ON l.id = u.location_id
WHERE u.organization_id = :organization_id AND (:reader_id IS NULL OR u.reader_id = :reader_id)
ORDER BY u.last_seen_at DESC LIMIT :limit
"""


def unknown_tags(organization_id: int, reader_id: int | None = None, limit: int = 200) -> list[UnknownTag]:
    """The one seen last first; reader 0 stands for people with handhelds."""
    values = {"organization_id": organization_id, "reader_id": reader_id, "limit": limit}
    return [UnknownTag(*row) for row in execute(_UNKNOWN, values)]


def drop_unknown_tag(organization_id: int, tag_type: str, match_key: str, reader_id: int) -> None:
    """It comes back when it is seen again."""
    with writing():
        execute(
            "DELETE FROM unknown_tag WHERE organization_id = ? AND tag_type = ? AND match_key = ? AND reader_id = ?",
            (organization_id, tag_type, match_key, reader_id),
        )


_LETTERS = """
SELECT d.no, d.reader_id, r.name, d.topic, substr(d.payload, 1, :bytes), length(d.payload), d.reason, d.received_at
FROM dead_letter d LEFT JOIN reader r ON r.id = d.reader_id
WHERE d.organization_id = :organization_id AND (:no IS NULL OR d.no = :no) ORDER BY d.no DESC LIMIT :limit
"""
_ALL_BYTES = 2**30


def dead_letters(organization_id: int, shown_bytes: int, limit: int = 100) -> list[DeadLetter]:
    """Messages of the organization's readers that could not be read, the newest first, with their first bytes."""
    wanted = {"organization_id": organization_id, "no": None, "bytes": shown_bytes, "limit": limit}
    return [DeadLetter(*row) for row in execute(_LETTERS, wanted)]


def find_dead_letter(organization_id: int, no: int) -> DeadLetter:
    """Raises NotFound."""
    wanted = {"organization_id": organization_id, "no": no, "bytes": _ALL_BYTES, "limit": 1}
    row = execute(_LETTERS, wanted).fetchone()
    if row is None:
        raise NotFound("no such dead letter")
    return DeadLetter(*row)


def drop_dead_letter(organization_id: int, no: int) -> None:
    with writing():
        execute("DELETE FROM dead_letter WHERE organization_id = ? AND no = ?", (organization_id, no))


class Waiting(NamedTuple):
    """How much there is to set up."""

    topics: int
    unknown_tags: int
    dead_letters: int


def waiting(organization_id: int) -> Waiting:
    with reading():
        return Waiting(
            execute("SELECT count(*) FROM unclaimed_topic").fetchone()[0],
            execute("SELECT count(*) FROM unknown_tag WHERE organization_id = ?", (organization_id,)).fetchone()[0],
            execute("SELECT count(*) FROM dead_letter WHERE organization_id = ?", (organization_id,)).fetchone()[0],
        )
