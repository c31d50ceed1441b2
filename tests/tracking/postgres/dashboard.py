"""The dashboard for Grafana, and its queries as Grafana sends them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import datetime
from typing import Any

from tests.manual.documents import ROOT


def load() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "systemd" / "grafana-history.json").read_text("utf-8"))
    return loaded


def expanded(sql: str, sites: Collection[str], begin: datetime, end: datetime, interval: int) -> str:
    """Return a query with the macros and variables expanded. `interval`: seconds of a point of the graph."""
    chosen = ",".join(f"'{site}'" for site in sites)
    times = [f"'{moment:%Y-%m-%dT%H:%M:%S.%fZ}'" for moment in (begin, end)]
    for pattern, text in (
        (r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {times[0]} AND {times[1]}"),
        (r"\$__timeGroup\((\w+), *\$__interval\)", rf"floor(extract(epoch from \1)/{interval})*{interval}"),
        (r"\$\{?site\b\}?", chosen),
    ):
        sql = re.sub(pattern, text, sql)
    assert "$" not in sql, sql
    return sql
