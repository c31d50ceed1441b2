"""A wrong database of PostgreSQL is named as such, and the stays of another hub in it remain."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from edge.cli import cli
from edge.database.connection import close_database
from edge.errors import Conflict, HistoryUnavailable
from edge.sync.store import digests, remote_batches
from edge.tracking import history_engine
from edge.tracking.postgres import pool
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_digests
from tests.tracking.postgres.conftest import move
from tests.tracking.postgres.server import Server
from tests.tracking.postgres.test_history import finding

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def use(url: str) -> None:
    """Use this database like the service."""
    history_engine.use_engine(url)
    history_engine.check_reachable()


def count_stays(url: str) -> int:
    history_engine.close()
    history_engine.use(url)
    with pool.connected() as connection:
        row = connection.execute("SELECT count(*) FROM stay").fetchone()
    history_engine.close()
    return int(row[0]) if row else 0


def test_the_database_of_another_hub_is_left_alone(
    sites: list[SiteBox], postgres_server: Server, tmp_path: Path
) -> None:
    """Its sites have the same numbers, so this hub regarded the stays as lost to a restore and deleted them."""
    hub, url = sites[0].hub, postgres_server.new_url()
    with hub.in_use():
        move(hub, url)
        history_engine.close()
        use(url)
        history_engine.close()
    hub.history = url
    sites[0].scan(sites[0].add_asset("P-late"), 0, EPOCH + 99 * HOUR)
    sites[0].sync()
    number = count_stays(url)
    other = Hub(tmp_path / "other", "other")
    SiteBox(tmp_path / "MUC", "MUC", other).join()
    with other.in_use():
        history_engine.use_engine(url)
        with pytest.raises(HistoryUnavailable):
            remote_batches.settle_all()
        assert "of another hub" in history_engine.why_away()
        history_engine.close()
    assert count_stays(url) == number
    with hub.in_use():
        use(url)
        history_engine.moving.bring_back()
        with pytest.raises(Conflict, match="here already"):
            history_engine.moving.bring_back()
        history_engine.close()
    with other.in_use():  # it is free now
        use(url)


@pytest.mark.parametrize("is_empty", [False, True])
def test_stays_that_a_restored_database_lacks_are_found_by_the_comparison(
    is_empty: bool, sites: list[SiteBox], postgres_server: Server
) -> None:
    """The hub compared the digests of former days that it had stored, so nothing seemed to be missing."""
    site, url = sites[0], postgres_server.new_url()
    hub = site.hub
    with hub.in_use():
        move(hub, url)
    hub.history = url
    site.scan(site.add_asset("P-8"), 0, EPOCH + 50 * HOUR)
    site.sync()
    pool.close()
    saved = postgres_server.new_url() if is_empty else postgres_server.copy(url)
    site.scan(site.add_asset("P-9"), 0, EPOCH + 99 * HOUR)
    site.settle()
    with hub.in_use():
        assert digests.kept_by_day(digests.Scope(hub.organization_id, site.site_no), digests.ALL_DAYS).by_day
    pool.close()
    hub.history = saved
    with hub.in_use():
        remote_batches.settle(site.site_no)
    assert_digests(hub)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("edge@127.0.0.1:1/edge", "refused"), ("edge@{}/missing", "does not exist"), ("weak@{}/{}", "permission denied")],
)
def test_a_move_to_a_wrong_database_says_why(
    name: str, reason: str, sites: list[SiteBox], postgres_server: Server
) -> None:
    if name.startswith("weak") and not postgres_server.run("SELECT 1 FROM pg_roles WHERE rolname = 'weak'"):
        postgres_server.run("CREATE ROLE weak LOGIN")
    address, _, database = postgres_server.new_url().partition("@")[2].partition("/")
    answer = run(sites[0].hub, "--to", f"postgresql://{name.format(address, database)}")
    assert answer.startswith("PostgreSQL does not answer")
    assert reason in answer
    assert "run the command again" in answer


def test_the_doctor_finds_an_empty_database(sites: list[SiteBox], postgres_server: Server) -> None:
    hub = sites[0].hub
    with hub.in_use():
        move(hub, postgres_server.new_url())
        history_engine.close()
        assert finding(postgres_server.new_url()).text.endswith("has no stays, and the hub has some")
        history_engine.close()


def test_a_move_back_without_the_tables_says_why(sites: list[SiteBox], postgres_server: Server) -> None:
    hub, url = sites[0].hub, postgres_server.new_url()
    with hub.in_use():
        move(hub, url)
        with pool.connected() as connection:
            connection.execute("DROP TABLE stay CASCADE")
    answer = run(hub, "--back", history=url)
    assert "Tables are missing in PostgreSQL, or their schema is not visible: stay. Restore" in answer


def run(hub: Hub, *arguments: str, history: str = "") -> str:
    close_database()
    settings = ["--set", f"data_dir={hub.folder}", "--set", f"hub.history={history}"]
    try:
        result = CliRunner().invoke(cli, [*settings, "hub", "move-history", *arguments])
    finally:
        close_database()
        history_engine.use("")
    assert result.exit_code != 0
    return str(result.exception)
