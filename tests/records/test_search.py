"""`q` matches exactly like a plain comparison of folded texts, with and without the index."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.records import assets, search
from edge.records.listing import VERSION, ListQuery, Source, count_list, read_page
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from tests.conftest import Cast

ALPHABET = st.sampled_from("aAbß-Ss\u0130\u00e9\u4e2d\U0001f4e6\"%_'* ")
NAMES = st.text(ALPHABET, min_size=1, max_size=8)


@pytest.mark.parametrize("few", [search.FEW, 0])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=5), tag=NAMES, q=st.text(ALPHABET, min_size=1, max_size=5))
def test_q_is_a_substring_of_the_folded_texts(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, few: int, names: list[str], tag: str, q: str
) -> None:
    monkeypatch.setattr(search, "FEW", few)
    execute("UPDATE asset SET deleted_at = 1 WHERE deleted_at IS NULL")
    execute("UPDATE tag SET deleted_at = 1")
    execute("UPDATE searchable SET deleted_at = 1")
    made = [assets.create(shell(cast.acme), name=name, description=name[::-1]) for name in names]
    assets.attach_tag(shell(cast.acme), made[0].id, NewTag("ble", tag))
    texts = {row.id: [row.name, row.external_key, row.description or ""] for row in made}
    texts[made[0].id].append(tag)
    expected = {row_id for row_id, own in texts.items() if any(q.casefold() in text.casefold() for text in own)}
    page = assets.list_page(cast.acme, RecordFilter(q=q), limit=200)
    assert ({row.id for row in page.rows}, page.total_count) == (expected, len(expected))


def test_a_count_is_kept_until_a_write_or_the_edge_of_a_window(cast: Cast) -> None:
    assets.create(shell(cast.acme), name="x", valid_from=100, valid_to=200)
    assets.create(shell(cast.acme), name="y", valid_from=150)

    def count(now: int) -> int:
        values = {"organization_id": cast.acme, "now": now}
        version = execute(f"SELECT {VERSION}").fetchone()[0]
        conditions = "a.organization_id = :organization_id"
        return count_list("asset a", "a", conditions, values, version, include_deleted=False)

    assert [count(now) for now in (99, 100, 149, 150, 199, 200, 120)] == [0, 1, 1, 2, 2, 1, 1]
    assets.create(shell(cast.acme), name="z", valid_from=1)
    assert count(120) == 2


def test_the_count_of_many_matches_heeds_every_condition(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW", 2)
    made = [assets.create(shell(cast.acme), name=f"Crate {number}") for number in range(5)]
    query = ListQuery(cast.acme, "a.organization_id", include_deleted=False)
    query.conditions.append("a.id = :one")
    query.values["one"] = made[0].id
    source = Source(["a.id"], "asset a", "a", "a.id")
    rows, count = read_page(source, query, search.match("asset", cast.acme, "Crate"), "a.id", 10, 0)
    assert (len(rows), count) == (1, 1)
