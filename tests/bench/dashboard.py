"""Measure the queries of the dashboard for Grafana with many stays in PostgreSQL, and print their plans.

python -m tests.bench.dashboard [--rows 1000000] [--days 1 7 30] [--plans]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import psycopg

from edge.tracking.postgres import schema
from tests.tracking.postgres.dashboard import expanded, load
from tests.tracking.postgres.server import Server

SITES = [f"S{number:02}" for number in range(20)]
PLACES = 10  # of a site
YEAR = 365 * 86_400 * 1_000_000  # microseconds
POINTS = 500  # of a graph
REPEATS = 5
_TRACKS = """
INSERT INTO track_label SELECT n, 'Acme', (%s::text[])[1 + n %% 20], 'A-' || n, 'Pallet ' || n
FROM generate_series(1, %s) n
"""
_SOURCES = """
INSERT INTO source_label SELECT n, 'L-' || n, 'Dock ' || n, 'Gate ' || n, '1' FROM generate_series(0, %s) n
"""
_STAYS = """
INSERT INTO stay (track, observed_at, seq, seen_for, source, delay, until, quality, rule, rssi)
SELECT 1 + n %% %(assets)s, %(first)s + n * %(step)s::bigint, 0, %(lasts)s / 2,
       n %% 20 * %(places)s + n * 7919 %% %(places)s, 400000,
       CASE WHEN n + %(assets)s < %(stays)s THEN %(first)s + (n + %(assets)s) * %(step)s::bigint END, 0, 1, -55
FROM generate_series(0, %(stays)s - 1::bigint) n
"""


def fill(url: str, stays: int, assets: int) -> None:
    """Write the stays and the names. Assets move in turn."""
    first, step = int(time.time() * 1_000_000) - YEAR, YEAR // stays
    values = {"first": first, "step": step, "lasts": step * assets, "places": PLACES, "stays": stays, "assets": assets}
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        schema.prepare(connection)
        connection.execute(_TRACKS, (SITES, assets))
        connection.execute(_SOURCES, (len(SITES) * PLACES,))
        connection.execute(_STAYS, values)
        connection.execute("VACUUM ANALYZE")


def measure(url: str, days: int, *, is_explained: bool) -> None:
    """Print the time of each query for the last days."""
    end = datetime.now(UTC)
    begin = end - timedelta(days=days)
    dashboard = load()
    queries = {one["title"]: one["targets"][0]["rawSql"] for one in dashboard["panels"]}
    queries |= {
        f"variable {one['name']}": one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"
    }
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for title, raw in queries.items():
            sql = expanded(raw, SITES, begin, end, max(days * 86_400 // POINTS, 60)).encode()
            times = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                rows = connection.execute(sql).fetchall()
                times.append(time.perf_counter() - began)
            print(f"{days} days, {title}: {median(times) * 1000:.0f} ms, {len(rows)} rows", flush=True)
            if is_explained:
                print(*(f"    {line}" for (line,) in connection.execute(b"EXPLAIN ANALYZE " + sql)), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stays", type=int, default=1_000_000)
    parser.add_argument("--assets", type=int, default=20_000)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 7, 30])
    parser.add_argument("--plans", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edge-bench-") as folder:
        server = Server(Path(folder), shared_buffers="1GB", max_wal_size="8GB")
        try:
            url = server.new_url()
            fill(url, options.stays, options.assets)
            for days in options.days:
                measure(url, days, is_explained=options.plans)
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    main()
