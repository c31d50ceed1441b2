"""The commands of the manual set up a hub on PostgreSQL, and a role that reads its views and does nothing else."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import errors

from edge.clock import SECOND
from edge.database.connection import execute
from edge.operations.files import hold
from edge.tracking.postgres import labels, schema
from tests.manual.documents import ROOT, blocks, marked
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox
from tests.tracking.postgres.conftest import STAYS, two_sites
from tests.tracking.postgres.dashboard import expanded, load
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

NOT_HERE = ("sudo apt ", "sudo systemctl ", "printf ", "sudo edge doctor")
SOCKET = "postgresql:///edge?host=/run/postgresql"


def run(line: str, server: Server, hub: Hub) -> None:
    """Run a command of the manual with this server and hub."""
    if line.startswith(NOT_HERE):
        return
    words = shlex.split(line)
    if words[:2] == ["sudo", "edge"]:
        url = f"postgresql://edge@127.0.0.1:{server.port}/edge"
        arguments = [url if word == SOCKET else word for word in words[2:]]
        command = [sys.executable, "-m", "edge", f"--set=data_dir={hub.folder}", *arguments]
    else:
        assert words[:3] == ["sudo", "-u", "postgres"], line
        command = [str(server.bin / words[3]), *words[4:]]
    access = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd="/", env={**os.environ, **access}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"


class Installed(NamedTuple):
    """A hub and its sites, moved by the commands of the manual to a server like that of Debian.

    The server belongs to `postgres` and knows nobody else.
    """

    server: Server
    hub: Hub
    sites: list[SiteBox]


@contextmanager
def installed(folder: Path) -> Iterator[Installed]:
    with tempfile.TemporaryDirectory(prefix="edge-postgres-") as of_server:
        server = Server(Path(of_server), owner="postgres")
        try:
            sites = two_sites(folder)
            moved = sites[0].hub
            with hold(moved.folder):  # the service runs
                for line in marked("run:postgresql-setup").lines:
                    run(line, server, moved)
            for name in ("finish", "reader"):
                for line in marked(f"run:postgresql-{name}").lines:
                    run(line, server, moved)
            moved.history = f"postgresql://edge@127.0.0.1:{server.port}/edge"
            yield Installed(server, moved, sites)
        finally:
            server.stop("immediate")


@pytest.fixture(scope="module")
def of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The one of all tests that change nothing, because it takes seconds to install."""
    with installed(tmp_path_factory.mktemp("reports")) as made:
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path) as made:
        yield made


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Installed:
    """One of its own for a test that asks for it, otherwise that of all."""
    one: Installed = request.getfixturevalue("own" if "own" in request.fixturenames else "of_all")
    return one


@pytest.fixture
def server(made: Installed) -> Server:
    return made.server


@pytest.fixture
def hub(made: Installed) -> Hub:
    return made.hub


def reading(server: Server, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement as the role for reports."""
    with closing(psycopg.connect(f"postgresql://reports@127.0.0.1:{server.port}/edge", autocommit=True)) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def refresh(hub: Hub) -> None:
    with hub.in_use():
        labels.refresh(lambda _: False)


_EXPECTED = """
SELECT a.external_key, l.name, h.observed_at, site.code FROM temp.history h JOIN track t ON t.no = h.position_no
JOIN asset a ON a.id = t.asset_id JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id
JOIN site ON site.no = t.site_no ORDER BY 1, 3
"""


def test_the_views_have_the_rows_of_the_hub(hub: Hub, server: Server) -> None:
    refresh(hub)
    rows = reading(
        server,
        "SELECT asset_key, location, (extract(epoch FROM began_at) * 1000000)::bigint, site FROM report.stay "
        'ORDER BY asset_key COLLATE "C", began_at',
    )
    assert len(rows) == STAYS
    assert rows == hub.rows(_EXPECTED)
    newest = reading(server, "SELECT asset_key, location FROM report.newest_stay ORDER BY 1")
    expected = "SELECT a.external_key, l.name FROM track t JOIN asset a ON a.id = t.asset_id "
    assert newest == hub.rows(f"{expected} JOIN location l ON l.id = t.location_id ORDER BY 1")
    sites = reading(server, "SELECT organization, site FROM report.site ORDER BY 2")
    expected = "SELECT o.name, s.code FROM site s JOIN organization o ON o.id = s.organization_id ORDER BY 2"
    assert sites == hub.rows(expected)


@pytest.mark.usefixtures("own")
def test_names_follow_the_hub_and_people_are_left_out(hub: Hub, server: Server) -> None:
    refresh(hub)
    with hub.in_use():
        first, second = (row[0] for row in execute("SELECT DISTINCT asset_id FROM track ORDER BY 1 LIMIT 2"))
        execute("UPDATE asset SET name = 'Renamed' WHERE id = ?", (first,))
        execute("INSERT INTO tracked_person VALUES (?)", (second,))
        key = execute("SELECT external_key FROM asset WHERE id = ?", (second,)).fetchone()[0]
    refresh(hub)
    assert reading(server, "SELECT count(*) FROM report.newest_stay WHERE asset = 'Renamed'") == [(1,)]
    for view in ("report.stay", "report.newest_stay"):
        assert reading(server, f"SELECT count(*) FROM {view} WHERE asset_key = '{key}'") == [(0,)]


@pytest.mark.usefixtures("own")
def test_names_arrive_as_they_are(hub: Hub, server: Server) -> None:
    names = [
        "'; DROP TABLE stay; --",
        "%s %(no)s %%",
        "{0} $1 \\",
        "\\N",
        "\u202eGer\u00e4t \U0001f4e6",
        '"report"."stay"',
    ]
    with hub.in_use():
        ids = [row[0] for row in execute("SELECT DISTINCT asset_id FROM track ORDER BY 1 LIMIT ?", (len(names),))]
        for asset_id, name in zip(ids, names, strict=True):
            execute("UPDATE asset SET name = ? WHERE id = ?", (name, asset_id))
    refresh(hub)
    shown = {asset for (asset,) in reading(server, "SELECT asset FROM report.newest_stay")}
    assert set(names) <= shown
    assert len(reading(server, "SELECT 1 FROM report.stay")) == STAYS


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM stay",
        "SELECT 1 FROM track_label",
        "SELECT 1 FROM site_cursor",
        "DELETE FROM report.stay",
        "UPDATE report.newest_stay SET asset = ''",
        "CREATE TABLE mine (a int)",
        "CREATE TABLE report.mine (a int)",
        "CREATE TEMP TABLE mine (a int)",
        "CREATE SCHEMA mine",
        "COPY (SELECT 1) TO '/tmp/edge-should-not-exist'",
        "SELECT pg_read_file('/etc/passwd')",
        "ALTER ROLE reports SUPERUSER",
        "CREATE ROLE another",
        "SELECT pg_advisory_lock(n) FROM generate_series(1, 1000000) AS s(n)",  # takes the memory of all locks
        "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
        "SELECT lo_from_bytea(0, 'fills the disk')",
        "SELECT lo_put(lo_create(0), 0, 'x')",
        "SELECT pg_logical_emit_message(false, '', 'fills the disk')",
        "SET temp_file_limit = -1",
        "ALTER ROLE reports CONNECTION LIMIT 1000",
    ],
)
def test_the_role_for_reports_may_do_nothing_else(sql: str, hub: Hub, server: Server) -> None:
    with pytest.raises((errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState)):
        reading(server, sql)


def test_long_reports_are_ended_from_outside(hub: Hub, server: Server) -> None:
    """The role may change its own time limit; the manual has the statement that ends it nevertheless."""
    with closing(psycopg.connect(f"postgresql://reports@127.0.0.1:{server.port}/edge")) as report:
        report.execute("SET statement_timeout = 0")  # begins the transaction
        [line] = [one.code for one in blocks() if "pg_terminate_backend" in one.code]
        sql = line.partition('"')[2].partition('"')[0]
        assert server.run(sql) == []
        ended = server.run(sql.replace("interval '2 minutes'", "interval '0 minutes'"))
        assert ended == [(True,)]
        with pytest.raises(errors.AdminShutdown):
            report.execute("SELECT 1")


def test_a_report_cannot_hold_up_the_sites(own: Installed) -> None:
    """Every role may hold advisory locks. Before, those of a report kept all sites from sending their stays."""
    server, hub, sites = own
    for line in marked("run:postgresql-reader").lines:
        if "advisory" in line:  # as on a hub that was set up by an earlier release
            run(line.replace("REVOKE", "GRANT").replace("FROM PUBLIC", "TO PUBLIC"), server, hub)
    with closing(psycopg.connect(f"postgresql://reports@127.0.0.1:{server.port}/edge", autocommit=True)) as report:
        report.execute("SELECT pg_advisory_lock(7203, site) FROM generate_series(1, 9) AS s(site)")
        report.execute("SELECT pg_advisory_lock(7203884512)")
        box = sites[0]
        box.scan(box.add_asset("P-LATE"), 0, EPOCH + 99 * HOUR)
        box.sync()
    assert hub.rows("SELECT count(*) FROM temp.history") == [(STAYS + 1,)]


def test_a_second_move_after_the_first_one_is_refused(hub: Hub, server: Server) -> None:
    line = marked("run:postgresql-finish").lines[1]
    with pytest.raises(AssertionError, match="in PostgreSQL already"):
        run(line, server, hub)
    assert hub.rows("SELECT count(*) FROM temp.history") == [(STAYS,)]
    noted = hub.rows("SELECT action, detail FROM audit WHERE action GLOB 'history.*'")
    assert noted == [("history.moved_to_postgresql", f'{{"stays":{STAYS}}}')]


def test_the_setting_of_the_manual_is_appended_to_the_file_of_a_box(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_bytes((ROOT / "systemd" / "edge.toml").read_bytes())
    command = marked("run:postgresql-finish").lines[2].replace("sudo tee -a /etc/edge/edge.toml", f"tee -a {file}")
    subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL)
    assert tomllib.loads(file.read_text("utf-8"))["hub"] == {"history": SOCKET}


def test_the_owner_of_the_history_is_no_administrator(hub: Hub, server: Server) -> None:
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        row = connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        assert row == (False, False, False, False)


def test_an_index_finds_the_rows_of_a_period(hub: Hub, server: Server) -> None:
    sql = "EXPLAIN SELECT count(*) FROM report.stay WHERE began_at > now() - interval '1 day'"
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = " ".join(line for (line,) in connection.execute(sql))
    assert "_to_timestamp_idx" in plan or "stay_period" in plan, plan


BEGIN = datetime.fromtimestamp(EPOCH // SECOND, UTC)
END = BEGIN + timedelta(hours=99)


def queries() -> dict[str, str]:
    """Return the queries of the dashboard by title, as Grafana sends them."""
    dashboard = load()
    raw = {panel["title"]: panel["targets"][0]["rawSql"] for panel in dashboard["panels"]}
    raw |= {one["label"]: one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"}
    return {title: expanded(sql, ["BER", "HAM"], BEGIN, END, 300) for title, sql in raw.items()}


def test_every_query_of_the_dashboard_shows_rows(hub: Hub, server: Server) -> None:
    refresh(hub)
    for title, sql in queries().items():
        assert reading(server, sql), title


def test_the_graph_has_a_time_and_a_number_for_each_site(hub: Hub, server: Server) -> None:
    refresh(hub)
    rows = reading(server, queries()["Stays begun"])
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert all(-300 < int(at) - BEGIN.timestamp() < 99 * 3600 and at % 300 == 0 for at, _, _ in rows)
    assert {site for _, site, _ in rows} == {"BER", "HAM"}
    assert sum(number for _, _, number in rows) == STAYS


def test_an_index_finds_the_rows_of_the_panels_with_a_period(hub: Hub, server: Server) -> None:
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_nestloop = off")  # few rows, so a look at each asset would be cheaper
        periods = {title: sql for title, sql in queries().items() if " BETWEEN " in sql}
        assert periods.keys() == {"Stays begun", "Busiest locations", "Latest stays"}
        for title, sql in periods.items():
            plan = " ".join(line for (line,) in connection.execute(b"EXPLAIN " + sql.encode()))
            assert "_to_timestamp_idx" in plan, title


@pytest.mark.usefixtures("own")
def test_the_choice_of_sites_and_panels_of_a_site_do_not_read_all_names(hub: Hub, server: Server) -> None:
    """Before, each of them read the names of all assets of all sites."""
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        connection.execute(
            "INSERT INTO track_label SELECT n, 'Other', 'S' || n % 50, 'K-' || n, 'Pallet ' || n "
            "FROM generate_series(1000, 20000) n"
        )
        connection.execute("VACUUM ANALYZE track_label")
        chosen = {title: sql for title, sql in queries().items() if title in ("Site", "Assets by location now")}
        assert len(chosen) == 2
        for title, sql in chosen.items():
            [([plan],)] = connection.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql.encode()).fetchall()
            assert names_read(plan["Plan"]) < 200, title


def names_read(node: dict[str, Any]) -> int:
    """Return the number of rows of `track_label` that a plan has read."""
    here = int(node["Actual Rows"] * node["Actual Loops"]) + node.get("Rows Removed by Filter", 0)
    below = sum(map(names_read, node.get("Plans", ())))
    return below + (here if node.get("Relation Name") == "track_label" else 0)


@pytest.mark.usefixtures("own")
def test_roles_that_read_the_views_of_an_earlier_release_read_the_new_one(hub: Hub, server: Server) -> None:
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        connection.execute("DROP VIEW report.site")
        connection.execute("DROP INDEX track_label_site")
        schema.create(connection)
    assert reading(server, "SELECT site FROM report.site ORDER BY 1") == []
    refresh(hub)
    assert reading(server, "SELECT site FROM report.site ORDER BY 1") == [("BER",), ("HAM",)]


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """It has no id of a Grafana or data source of its own, and every panel uses the one that is chosen."""
    dashboard = load()
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= dashboard.keys()
    assert dashboard.get("id") is None
    assert "__inputs" not in dashboard
    source, site = dashboard["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "grafana-postgresql-datasource")
    chosen = {"type": source["query"], "uid": f"${{{source['name']}}}"}
    panels = dashboard["panels"]
    for one in (site, *panels, *(target for panel in panels for target in panel["targets"])):
        assert one["datasource"] == chosen
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        [target] = panel["targets"]
        assert target["format"] == ("time_series" if panel["type"] == "timeseries" else "table")
        assert target["rawQuery"]
        assert target["refId"]
        assert 0 <= panel["gridPos"]["x"] <= 24 - panel["gridPos"]["w"]
    assert site["multi"]
    assert site["includeAll"]
