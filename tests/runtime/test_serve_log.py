from __future__ import annotations

import logging

from edge.logs import OneLine


def test_what_others_sent_makes_no_line_of_its_own() -> None:
    sent = "/x\nERROR the disk is on fire\x1b[2J\u2028\ud800"
    record = logging.LogRecord("edge", logging.INFO, "", 0, "a page failed: %s", (sent,), None)
    line = OneLine("%(levelname)s %(message)s").format(record)
    assert line == r"INFO a page failed: /x\nERROR the disk is on fire\x1b[2J\u2028\ud800"
