"""What a device sends beside scans: that a stock-take began or ended, what is lost, that a carrier was emptied.

It travels in the queue with the scans, so it arrives in order, also hours later, and is answered like them.
"""

from __future__ import annotations

from typing import Any

from edge.pages.forms import is_id, typable
from edge.store import carriers, lost_assets, stock_takes
from edge.store.actors import Actor
from edge.store.handheld import Answer, Result
from edge.texts import N_
from edge.validation.values import MAX_TEXT


def handle(sender: Actor, item_id: str, item: dict[str, Any], at: int, received_at: int) -> Answer | None:
    """None when the item is none of these. `at` is the device's time, corrected."""
    match item.get("act"):
        case "begin":
            done = _begin(sender, item_id, item, at)
        case "finish":
            done = stock_takes.finish(sender, str(item.get("stock_take")), received_at, _signed(item.get("lines")))
        case "cancel":
            done = stock_takes.cancel(sender, str(item.get("stock_take")), received_at)
        case "lost" | "found":
            asset_id = item.get("asset")
            done = is_id(asset_id) and lost_assets.mark_lost(sender, asset_id, at, is_lost=item["act"] == "lost")
        case "unload_all":
            carrier_id = item.get("asset")
            done = is_id(carrier_id) and carriers.unload_all(sender.organization_id, carrier_id, at)
        case _:
            return None
    return (
        Answer(item_id, Result.DONE) if done else Answer(item_id, Result.REFUSED, N_("That is not possible any more"))
    )


def _signed(lines: Any) -> stock_takes.Signed | None:
    """The lines that a device sends with a sign-off; None from one that sends none. What makes no sense is left out."""
    if not isinstance(lines, dict):
        return None
    groups = {name: group for name, group in lines.items() if isinstance(group, list)}
    assets = {
        name: [
            (one[0], one[1])
            for one in groups.get(name, [])[: stock_takes.MOST_SCANS]
            if isinstance(one, list) and len(one) == 2 and is_id(one[0]) and one[1] in _HOW
        ]
        for name in ("missing", "elsewhere", "here")
    }
    codes = [code for code in groups.get("unknown", []) if isinstance(code, str)][: stock_takes.MOST_SCANS]
    return stock_takes.Signed(assets, [typable(code)[:MAX_TEXT] for code in codes])


_HOW = ("", "scan", "reader", "person")


def _begin(sender: Actor, item_id: str, item: dict[str, Any], at: int) -> bool:
    location, expected = item.get("location"), item.get("expected")
    if not is_id(location) or not isinstance(expected, list):
        return False
    return stock_takes.begin(
        sender,
        item_id,
        location,
        with_sublocations=item.get("with_sublocations") is True,
        expected=[asset for asset in expected if is_id(asset)],
        started_at=at,
    )
