"""Inject faults (see diagnoses.toml) on an installed Debian one by one, and check that `edge doctor` reports them.

`python -m tests.soak.diagnoses --box TOOL --folder DIR [--installed]`. TOOL is a program that makes and runs a whole
computer (see box.py). With --installed the one in DIR has the service already. Prints a table, and the number of faults
that their checks reported.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.soak.box import Box
from tests.soak.installed_site import ROOT, Ports, install, wait_for


class Fault(NamedTuple):
    """One of `checks` must report the fault; `undo` restores the site.

    `remedy` is a part of the advice of the first check, which is run and must end the fault.
    """

    name: str
    checks: str
    inject: str
    undo: str
    remedy: str = ""


FAULTS = [Fault(**fault) for fault in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["fault"]]
WRONG = "used by another program"  # must not be said of a port in TIME_WAIT


def examine(box: Box) -> dict[str, tuple[str, ...]]:
    """Run the doctor. Returns level, text and advice by check."""
    said = box.run("edge doctor --json 2>&1 || true")
    if said.startswith("PROBLEM "):  # the program or its user is missing
        text, *advice = said.splitlines()
        return {text.split()[1]: ("problem", text, " ".join(advice))}
    return {check["id"]: (check["level"], check["text"], check["advice"]) for check in json.loads(said)["checks"]}


def inject(box: Box, fault: Fault, before: dict[str, tuple[str, ...]]) -> bool:
    """Inject a fault. Returns whether one of its checks reports it, did not before, and its remedy ends it."""
    box.run(f"set +e\n{fault.inject}\ntrue")
    try:
        after = examine(box)
        ended = cure(box, fault, after) if fault.remedy else "-"
    finally:
        box.run(f"set +e\n{fault.undo}\ntrue")
    new = {name: finding for name, finding in after.items() if finding[0] != "ok" and finding != before.get(name)}
    is_reported = bool(new.keys() & set(fault.checks.split()))
    named = "; ".join(f"{name}: {finding[1][:110]}" for name, finding in new.items())
    print(f"| {fault.name} | {'yes' if is_reported else 'NO'} | {ended} | {named} |", flush=True)
    return is_reported and ended in ("-", "ended")


def cure(box: Box, fault: Fault, after: dict[str, tuple[str, ...]]) -> str:
    """Run the remedy as the finding has it, and return whether the finding is gone within half a minute."""
    check = fault.checks.split()[0]
    if check not in after or fault.remedy not in after[check][2]:
        return f"NOT ADVISED: {after.get(check, ('', '', 'no finding'))[2][:150]}"
    said = box.run(f"exec 2>&1\nyes | ({fault.remedy})", check=False)
    for _ in range(10):
        left = examine(box).get(check)
        if left is None or left[0] == "ok":
            return "ended"
        time.sleep(3)
    return f"LEFT: {left}; it said: {said[-200:]}"


def right_about_closed_connections(box: Box) -> bool:
    """Check that the doctor does not blame another program for connections in TIME_WAIT right after a stop."""
    box.run("for n in 1 2 3 4 5; do curl -s http://127.0.0.1:28080/healthz >/dev/null; done; systemctl stop edge")
    text = examine(box)["pages"][1]
    box.run("systemctl start edge")
    print(
        f"| stopped, connections in TIME_WAIT | {'NO' if WRONG in text else 'yes'} | pages: {text[:110]} |", flush=True
    )
    return WRONG not in text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--only", default="", help="pattern of the faults that are injected")
    given = parser.parse_args()
    box = Box(given.box, given.folder)
    if not given.installed:
        install(box, Ports(28080), ROOT)
    box.run("edge backup; touch -d '1 hour ago' /etc/edge/edge.toml; systemctl restart edge")
    wait_for(box, "curl -fs http://127.0.0.1:28080/healthz >/dev/null")
    before = examine(box)
    print(f"Before: { ({name: finding for name, finding in before.items() if finding[0] != 'ok'}) }")
    faults = [fault for fault in FAULTS if re.search(given.only, fault.name)]
    results = [inject(box, fault, before) for fault in faults]
    results.append(right_about_closed_connections(box))
    print(f"{sum(results)} of {len(results)} reported rightly")
    print(f"Afterwards: { ({name: finding for name, finding in examine(box).items() if finding[0] != 'ok'}) }")


if __name__ == "__main__":
    main()
