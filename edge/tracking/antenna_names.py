"""Named antennas: each name gets a port number when it is first read or configured."""

from __future__ import annotations

from edge.database.bounds import MOST_PORTS
from edge.database.connection import execute, writing
from edge.errors import Invalid
from edge.texts import N_, fill

FIRST_PORT = 100_001  # higher than any port in a message
LONGEST = 100
# Name or number of the antenna of `source s`; needs `JOINED`. None at a hub that does not have the name yet.
SHOWN = f"coalesce(an.name, remote_an.name, iif(s.port < {FIRST_PORT}, s.port, NULL))"
JOINED = """
LEFT JOIN antenna_name an ON an.reader_id = s.reader_id AND an.port = s.port
LEFT JOIN remote_antenna_name remote_an
    ON remote_an.site_no = s.site_no AND remote_an.remote_reader = s.remote_reader AND remote_an.port = s.port
"""


def label(name: str | None, port: int | None) -> str:
    """Return how to call an antenna: its name, else its number."""
    if name:
        return fill("%(name)s", name=name)
    return fill(N_("antenna %(name)s"), name=port) if port else fill(N_("its only antenna"))


def port_of(reader_id: int, name: str) -> int | None:
    """Return the port of a named antenna; None if the reader has used too many names."""
    with writing():
        row = execute("SELECT port FROM antenna_name WHERE reader_id = ? AND name = ?", (reader_id, name)).fetchone()
        if row is None:
            row = execute(
                "INSERT INTO antenna_name (reader_id, name, port) SELECT ?1, ?2, ?3 + count(*) FROM antenna_name "
                "WHERE reader_id = ?1 HAVING count(*) < ?4 RETURNING port",
                (reader_id, name, FIRST_PORT, MOST_PORTS),
            ).fetchone()
    return row[0] if row else None


def port_from(reader_id: int, written: str) -> int:
    """Return the port that a person entered, by number or name. Raises Invalid."""
    if written.isascii() and written.isdigit() and len(written) <= 6:
        return int(written)
    port = port_of(reader_id, written) if 0 < len(written) <= LONGEST else None
    if port is None:
        message = fill(N_("an antenna must be a number or a name of at most %(number)s characters"), number=LONGEST)
        raise Invalid.one("port", "invalid_value", message)
    return port


def names_of(reader_id: int) -> dict[int, str]:
    """Return the names of a reader's antennas by port."""
    return dict(execute("SELECT port, name FROM antenna_name WHERE reader_id = ?", (reader_id,)).fetchall())


def ports_by_name() -> dict[int, dict[str, int]]:
    """Return the ports by name across all organizations. For ingest only."""
    ports: dict[int, dict[str, int]] = {}
    for reader_id, name, port in execute("SELECT reader_id, name, port FROM antenna_name"):
        ports.setdefault(reader_id, {})[name] = port
    return ports
