"""Upgrades and the continuous backup under load: `python -m tests.soak.upgrades --box TOOL --folder DIR `.

Upgrades that succeed, that change the database, that are broken in various ways, and that lose power at each step. The
continuous backup on a drive that is filled up, removed and plugged in again, and a restore from it. The table is that
of site.py; "down" is the longest time without an answer. If the power fails during the switch, reads that mosquitto
acknowledged while the service was away are only in the broker's memory: those rows show the number of lost reads.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.soak.box import Box
from tests.soak.installed_site import ROOT, Ports, Row, Site, attempt, install, put_checkout, show, wait_for

NEW = "/root/edge-new"
LOG = "/root/upgrade.log"
MIGRATION = "edge/database/migrations/$(printf %04d $(($(ls edge/database/migrations/*.sql | wc -l) + 1)))_next.sql"
START = "sed -i '0,/^from edge/s//{}\\nfrom edge/' edge/runtime/serve.py"  # inserts code that runs at the start
# Broken releases: commands that change the checkout.
BROKEN = {
    "syntax": "echo 'def' >>edge/runtime/serve.py",
    "a dependency that does not exist": "echo 'edge-needs-this==1 --hash=sha256:00' >>systemd/requirements.txt",
    "a dependency that was changed": "sed -i 's/sha256:[0-9a-f]*/sha256:00/g' systemd/requirements.txt",
    "a migration that fails": f"echo 'CREATE TABLE asset (id INTEGER) STRICT;' >{MIGRATION}",
    "it does not start": START.format('raise SystemExit("broken on purpose")'),
    "it starts for too long": START.format("import time; time.sleep(300)"),
    "a page that fails": "echo '{{ 1/0 }}' >web/templates/tracking/board.html",
    "reads are not recorded": "sed -i 's/^def record(/def record(*_, **__):\\n    return []\\n\\n\\ndef unused(/'"
    " edge/tracking/positions.py",
    "it starts in a trial only": START.format(
        'import sys\\nif "mqtt.accounts_dir=" not in " ".join(sys.argv) and "serve" in sys.argv:\\n'
        '    raise SystemExit("broken at the site only")'
    ),
}
AT_THE_SITE = 'if "mqtt.accounts_dir=" not in " ".join(sys.argv) and "serve" in sys.argv:'  # not in the trial
DROPPED = (  # acknowledges the reader's messages and discards them
    "sed -i 's/^    def _enqueue(self.*/&\\n        if CONDITION:\\n            self._writer.put_done(delivery.mid,"
    " self._connection)\\n            return/' edge/ingest/subscriber.py; sed -i '0,/^from edge/s//import sys\\nfrom"
    " edge/' edge/ingest/subscriber.py"
)
# Releases worse than the previous one, and whether the trial detects it.
WORSE = {
    "it drops the topic of a reader": (
        DROPPED.replace("CONDITION", r'delivery.topic.startswith(b"site\/dock1")'),
        True,
    ),
    "it drops the topic of a reader at the site only": (
        DROPPED.replace(
            "CONDITION",
            r'delivery.topic.startswith(b"site\/dock1") and "mqtt.accounts_dir=" not in " ".join(sys.argv)',
        ),
        False,
    ),
    "it ends every 12 s": (
        START.format(
            r"import os, sys, threading\n" + AT_THE_SITE + r"\n    threading.Timer(12, os._exit, [1]).start()"
        ),
        False,
    ),
    "it never becomes ready": (START.format(r"import sys, time\n" + AT_THE_SITE + r"\n    time.sleep(300)"), True),
}
# Lines of edge/operations/root before which the power is cut, and whether the new release runs afterwards.
STEPS = {
    "backup": ('read(EDGE, "backup")', False),
    "build": ('yield *pip, "--no-deps"', False),
    "trial": ("done = result(*unit", False),
    "database copied while it is used": ('as_edge("sync", COPY_NEW)', False),
    "before it is remembered what ran": ("if not note(STATE, previous):", False),
    "what ran is half remembered": ("sync(new)", False),
    "units half written": ("_put(file, UNITS, 0o644)", False),
    "before the service stops": ('works("systemctl", "stop", "edge")', False),
    "before the database is kept": ("kept_database.keep_database()", False),
    "database kept, not yet under its name": ('as_edge("mv", "-T", COPY_NEW, COPY)', False),
    "database kept, not yet marked": ('as_edge("touch", PENDING)', False),
    "before the switch": ("if not point_to(release):", False),
    "in the switch": ("new.replace(VENV)", False),
    "before the new release starts": ('works("timeout", trial.start_limit', False),
    "before it is looked at": ("failed = unanswered(", False),
    "before reads are let in": ("kept_database.release_reads()", False),
    "no way back, the copy still there": ('as_edge("rm", "-f", COPY)', True),
    "no way back, the mark still there": ('as_edge("rm", "-f", PENDING)', True),
    "before it is ready": ("unanswered(base, _READY_SECONDS", True),
    "at the end": ('works("systemctl", "start", *_TIMERS)', True),
    "old releases half removed": ("if other not in kept:", True),
}
# Disks that fill up during the upgrade: file system, and the line before which it becomes full.
FULL = {
    "from the start": ("program", "alone()"),
    "while the release is installed": ("program", STEPS["build"][0]),
    "with its units": ("program", 'works("cp", "-r", checkout / "systemd"'),
    "before it is remembered what ran": ("program", STEPS["before it is remembered what ran"][0]),
    "before the switch": ("program", STEPS["before the switch"][0]),
    "before the watch": ("program", "if not note(PROBATION, previous):"),
    "before the backup": ("data", STEPS["backup"][0]),
    "before the trial": ("data", 'say("Testing it'),
    "before the service stops": ("data", STEPS["before the service stops"][0]),
}
SMALL_DISKS = {"program": ("/opt/edge", 700), "data": ("/var/lib/edge", 200)}  # folder, megabytes
# The same for an upgrade that does not change the database.
PLAIN_STEPS = {
    "before the switch": STEPS["before the switch"],
    "before the new release starts": STEPS["before the new release starts"],
    "before it is ready": (STEPS["before it is ready"][0], False),
    "before what ran is forgotten": ("STATE.unlink(missing_ok=True)", False),
    "at the end": STEPS["at the end"],
}
# During the rollback from a release that does not start.
WAYS_BACK = {
    "before the service stops": 'works("timeout", "3", "systemctl", "stop"',
    "before its units are there again": "install_units(old.release)",
    "before the switch": "_put_in_place(old.release, failed)",
    "before the database is put back": 'as_edge("rm", "-rf", DATA / "edge.db-wal"',
    "its WAL removed, not yet itself put back": 'as_edge("mv", "-T", COPY, DATABASE)',
    "the database put back": 'as_edge("rm", "-f", PENDING, COPY_NEW, READS)',
    "before what ran is forgotten": "for file in (STATE, PROBATION):",
    "before the old release starts": 'works("systemctl", "start", *waiting, "edge")',
}
INTERRUPTED = ROOT / "tests" / "systemd" / "interrupted.py"
SLOW = (  # leaves time for a cut in the middle: written pages, and much work left
    "CREATE TABLE {name} (id INTEGER) STRICT;\nWITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
    " WHERE i < {rows}) INSERT INTO {name} SELECT i FROM n;"
)


def fresh_release(box: Box, version: str, change: str = "true") -> None:
    """Copy the checkout as another version, with a change."""
    box.run(
        f"rm -rf {NEW}; cp -a /root/edge {NEW}; cd {NEW};"
        f" sed -i 's/__version__ = .*/__version__ = \"{version}\"/' edge/__init__.py; {change}"
    )


def keep_release(box: Box) -> None:
    """Base later releases on this one, because the database may have its schema."""
    box.run(f"rm -rf /root/edge; mv {NEW} /root/edge")


def version(site: Site) -> str:
    return site.box.run("edge --version").split()[-1]


def schema(site: Site) -> int:
    return int(site.box.run("edge doctor | grep -o ' schema [0-9]*$' || true").split()[-1])


def upgrade(site: Site, number: str, change: str = "true") -> str:
    fresh_release(site.box, number, change)
    site.watch.begin()
    site.box.run(f"edge upgrade {NEW}")
    assert version(site) == number
    keep_release(site.box)
    return f"{number} runs"


def upgrade_to(site: Site, checkout: Path) -> str:
    """Upgrade to a real release, and wait until it is kept. Its pages and the doctor must work."""
    put_checkout(site.box, checkout, NEW)
    site.watch.begin()
    said = site.box.run(f"edge upgrade {NEW} 2>&1")
    expected = re.findall(r'__version__ = "(.*)"', (checkout / "edge/__init__.py").read_text("utf-8"))[0]
    assert version(site) == expected, said
    wait_for(site.box, "test ! -e /opt/edge/probation && systemctl is-active -q edge", 660)
    warning = site.box.run("cat /var/lib/edge/warnings/upgrade 2>/dev/null || true")
    assert not warning, warning
    doctor = site.box.run("edge doctor || true")
    assert "PROBLEM" not in doctor, doctor
    keep_release(site.box)
    return f"{expected} runs and is kept"


def broken(site: Site, change: str) -> str:
    before = version(site)
    fresh_release(site.box, "9.99", change)
    said = site.box.run(f"edge upgrade {NEW} 2>&1 && echo WENT THROUGH", check=False)
    assert "WENT THROUGH" not in said, said
    assert version(site) == before, said
    left = site.box.run("ls -A /var/lib/edge /opt/edge | grep -E 'trial|before-upgrade|pending|^upgrade$' || true")
    assert not left, left
    return said.strip().splitlines()[-1]


def worse(site: Site, change: str, is_detected_by_trial: bool) -> str:
    """Upgrade to a worse release: the previous one must run again without help."""
    before = version(site), schema(site)
    fresh_release(site.box, "9.98", change)
    said = site.box.run(f"edge upgrade {NEW} 2>&1 && echo WENT THROUGH", check=False)
    assert ("WENT THROUGH" not in said) == is_detected_by_trial, said
    if not is_detected_by_trial:
        wait_for(site.box, "test ! -e /opt/edge/probation && systemctl is-active -q edge", 660)
        said = site.box.run("cat /var/lib/edge/warnings/upgrade; rm /var/lib/edge/warnings/upgrade")
    assert (version(site), schema(site)) == before, said
    return said.strip().splitlines()[-1]


def back(site: Site, change: str = "true") -> str:
    """Roll back by hand during the probation, also from a release that changed the database."""
    before = version(site), schema(site)
    fresh_release(site.box, "9.03", change)
    site.box.run(f"edge upgrade {NEW}")
    assert version(site) == "9.03"
    said = site.box.run("edge upgrade --back")
    assert (version(site), schema(site)) == before
    return said.strip().splitlines()[-1]


def power_cut(site: Site, line: str, is_new: bool, number: str, change: str) -> str:
    """Cut the power just before a line of the upgrade."""
    before = version(site)
    fresh_release(site.box, number, change)
    begin_upgrade(site, f"upgrade-{number}", line)
    wait_for(site.box, f"test -e /root/held || ! systemctl is-active -q upgrade-{number}", 900)
    assert "held" in site.box.run("ls /root"), site.box.run(f"cat {LOG}")
    return after_cut(site, before, number, is_new)


def begin_upgrade(site: Site, unit: str, line: str) -> None:
    interrupt(site.box, "/srv/hold", line, "hold")
    site.box.run(
        f"systemd-run --quiet --unit={unit} -E PATH=/srv/hold:$PATH sh -c"
        f" '/usr/local/sbin/edge-upgrade {NEW} >{LOG} 2>&1'"
    )


def interrupt(box: Box, folder: str, line: str, action: str) -> None:
    """Make a folder for PATH: with it, edge-upgrade does something before a line of its source. See INTERRUPTED.

    The service's user must be able to read the folder, too.
    """
    held = f"/root/{Path(folder).name.replace('hold', 'held')}"
    python = f"""#!/bin/sh
case "$*" in *edge.operations.root*)
  export AT={shlex.quote(line)} DO={shlex.quote(action)} HELD={held} FILLED=/root/filled
  exec /usr/bin/python3 -I -B {folder}/interrupted.py "$@" ;;
esac
exec /usr/bin/python3 "$@"
"""
    box.run(f"rm -rf {folder} {held} /root/filled")
    box.put(INTERRUPTED, f"{folder}/interrupted.py")
    box.run(f"cat >{folder}/python3 <<'PYTHON'\n{python}PYTHON\nchmod 755 {folder}/python3")


def after_cut(site: Site, before: str, number: str, is_new: bool) -> str:
    """Cut the power. Afterwards one of the two releases must run, without leftovers of the upgrade."""
    site.box.power_cut()
    site.box.boot()
    wait_for(site.box, "test ! -e /opt/edge/upgrade && systemctl is-active -q edge", 120)
    after = version(site)
    assert after == (number if is_new else before), after
    left = site.box.run("ls -A /var/lib/edge /opt/edge | grep -E 'trial|before-upgrade|pending|^upgrade$' || true")
    assert not left, left
    # A rollback at boot is reported as a failed unit.
    problems = site.box.run("systemctl reset-failed edge-upgrade; edge doctor | grep ^PROBLEM || true")
    assert not problems, problems
    if is_new:
        keep_release(site.box)
    return f"{after} runs, the release {'that was new' if is_new else 'from before'}"


def fill_up(site: Site, where: str, line: str, number: str) -> str:
    """Fill a small disk before a line of the upgrade. One of the two releases must run, without leftovers."""
    folder, megabytes = SMALL_DISKS[where]
    before = version(site)
    site.box.run("edge backup")  # of a new site the doctor misses it
    move_to_small_disk(site, folder, megabytes)
    try:
        said = _upgrade_while_filling(site, folder, line, number)
        site.watch.wait_until_up()
        down = site.watch.downtime()  # the moves to and from the small disk stop the service, too
        after = version(site)
        assert after in (before, number), after
        left = site.box.run("ls -A /var/lib/edge /opt/edge | grep -E 'trial|before-upgrade|pending|^upgrade$' || true")
        assert not left, left
        with suppress(TimeoutError):  # the assertion below has the details
            wait_for(site.box, "! edge doctor | grep '^PROBLEM' >/root/problems", 60)
    finally:
        problems = site.box.run("cat /root/problems 2>/dev/null || true").strip()
        move_from_small_disk(site, folder)
    assert not problems, problems
    if after == number:
        keep_release(site.box)
    which = "that was new" if after == number else "from before"
    return f"{after} runs, the release {which}, {down:.1f} s without an answer: {said.strip()[-120:]}"


def _upgrade_while_filling(site: Site, folder: str, line: str, number: str) -> str:
    """Upgrade with a disk that becomes full before a line, and is emptied five seconds later."""
    fresh_release(site.box, number)
    site.watch.begin()
    interrupt(site.box, "/srv/hold", line, f"fill {folder}")
    said = site.box.run(f"PATH=/srv/hold:$PATH edge-upgrade {NEW} 2>&1 || true")
    filled = site.box.run("ls /root")
    time.sleep(5)
    site.box.run(f"rm -f {folder}/filler {folder}/rest")
    assert "filled" in filled, said
    return said


def move_to_small_disk(site: Site, folder: str, megabytes: int) -> None:
    site.box.run(
        "command -v mkfs.ext4 >/dev/null || apt-get install -y -qq --no-install-recommends e2fsprogs >/dev/null;"
        " for n in $(seq 0 7); do [ -e /dev/loop$n ] || mknod -m 660 /dev/loop$n b 7 $n; done;"
        f" systemctl stop edge-probation edge; truncate -s {megabytes}M /root/small.img;"
        f" mkfs.ext4 -q -F -m 0 -b 4096 /root/small.img; mkdir -p /mnt/small; mount -o loop /root/small.img /mnt/small;"
        f" cp -a {folder}/. /mnt/small/; chown --reference={folder} /mnt/small; chmod --reference={folder} /mnt/small;"
        f" umount /mnt/small; mount -o loop /root/small.img {folder}; rm -rf {folder}/lost+found;"
        " printf '\\n[retention]\\nlow_disk_mb = 0\\n' >>/etc/edge/edge.toml; systemctl start edge"
    )
    site.watch.wait_until_up()


def move_from_small_disk(site: Site, folder: str) -> None:
    site.box.run(
        f"systemctl stop edge-probation edge; rm -rf /root/kept; cp -a {folder} /root/kept; umount {folder};"
        f" rm -rf {folder}/*; cp -a /root/kept/. {folder}/; sed -i '/^.retention.$/,$d' /etc/edge/edge.toml;"
        " rm -f /root/small.img; systemctl start edge"
    )
    site.watch.wait_until_up()


def cut_in_migration(site: Site, number: str) -> str:
    before = version(site)
    fresh_release(site.box, number, f"echo '{SLOW.format(name='slow', rows=6_000_000)}' >{MIGRATION}")
    begin_upgrade(site, f"upgrade-{number}", "nothing")
    is_in_it = "test -e /var/lib/edge/upgrade-pending && test $(stat -c %s /var/lib/edge/edge.db-wal) -gt 4000000"
    wait_for(site.box, f"{is_in_it} || ! systemctl is-active -q upgrade-{number}", 900)
    assert "upgrade-pending" in site.box.run("ls /var/lib/edge"), site.box.run(f"cat {LOG}")
    return after_cut(site, before, number, is_new=False)


def cut_twice(site: Site, number: str) -> str:
    """Cut the power a second time, during the rollback at boot."""
    before = version(site)
    fresh_release(site.box, number, add_table("twice"))
    begin_upgrade(site, f"upgrade-{number}", STEPS["before it is looked at"][0])
    wait_for(site.box, "test -e /root/held", 900)
    interrupt(site.box, "/srv/hold2", WAYS_BACK["its WAL removed, not yet itself put back"], "hold")
    site.box.run(
        "mkdir -p /etc/systemd/system/edge-upgrade.service.d;"
        " printf '[Service]\\nEnvironment=PATH=/srv/hold2:/usr/sbin:/usr/bin:/sbin:/bin\\n'"
        " >/etc/systemd/system/edge-upgrade.service.d/hold.conf"
    )
    site.box.power_cut()
    with suppress(subprocess.CalledProcessError):  # it waits for the end of the boot, which is held up
        site.box.boot()
    wait_for(site.box, "test -e /root/held2", 60)
    site.box.run("rm -r /srv/hold2")  # the third try goes on
    said = after_cut(site, before, number, is_new=False)
    site.box.run("rm -r /etc/systemd/system/edge-upgrade.service.d /root/held2; systemctl daemon-reload")
    return said


def add_table(name: str) -> str:
    return f"echo 'CREATE TABLE {name} (id INTEGER) STRICT;' >{MIGRATION}"


def plug_in_drive(site: Site) -> str:
    site.box.run(
        "for n in $(seq 0 7); do [ -e /dev/loop$n ] || mknod -m 660 /dev/loop$n b 7 $n; done;"
        " truncate -s 300M /root/usb.img; mkfs.ext4 -q -m 0 /root/usb.img; mkdir -p /mnt/usb;"
        " mount -o loop /root/usb.img /mnt/usb; install -d -o edge -g edge /mnt/usb/edge;"
        " sed -i 's|^\\[backup\\]|[backup]\\ncontinuous_dir = \"/mnt/usb/edge\"|' /etc/edge/edge.toml;"
        " systemctl restart edge"
    )
    return follows(site, True)


def follows(site: Site, is_ok: bool) -> str:
    """Wait until the doctor reports the expected state. Returns its finding."""
    began = time.monotonic()
    sign = "ok" if is_ok else "PROBLEM"
    wait_for(site.box, f"edge doctor | grep -q '^{sign} *backup-continuous'", 90)
    said = site.box.run("edge doctor | grep backup-continuous || true").strip()
    return f"{said} ({time.monotonic() - began:.0f} s)"


def fill_drive(site: Site) -> str:
    fill = "dd if=/dev/zero of=/mnt/usb/filler bs=1M 2>/dev/null || true"
    return without_drive(site, fill, mended_by="rm /mnt/usb/filler")


def pull_out_drive(site: Site) -> str:
    return without_drive(site, "umount -l /mnt/usb", mended_by="mount -o loop /root/usb.img /mnt/usb")


def without_drive(site: Site, fault: str, *, mended_by: str) -> str:
    """Cause and fix a fault of the drive. Returns the finding meanwhile; afterwards the copy must catch up."""
    site.box.run(fault)
    said = follows(site, False)
    site.box.run(mended_by)
    follows(site, True)
    return said


def restore_newest(site: Site) -> str:
    """Lose the disk with the database: data acknowledged seconds before must be on the drive."""
    time.sleep(3)
    site.box.run("systemctl stop mosquitto; sleep 3; systemctl kill -s KILL edge; systemctl stop edge")
    site.box.run("rm -rf /var/lib/edge/edge.db* /var/lib/edge/.edge.db-litestream")
    said = site.box.run("edge restore --yes; systemctl start edge mosquitto")
    return said.strip().splitlines()[0]


def acts() -> dict[str, Callable[[Site], str]]:
    return {
        "upgrade": partial(upgrade, number="9.01"),
        "upgrade that changes the database": partial(upgrade, number="9.02", change=add_table("added")),
        **{f"broken: {what}": partial(broken, change=change) for what, change in BROKEN.items()},
        **{
            f"worse: {what}": partial(worse, change=how, is_detected_by_trial=early)
            for what, (how, early) in WORSE.items()
        },
        "back by hand": back,
        "back by hand, the database changed": partial(back, change=add_table("later")),
        "worse, the database changed": partial(
            worse, change=f"{add_table('worse')}; {WORSE['it ends every 12 s'][0]}", is_detected_by_trial=False
        ),
        **power_cuts(),
        **{
            f"full disk {what}, {where}": partial(fill_up, where=where, line=line, number=f"9.{number}")
            for number, (what, (where, line)) in enumerate(FULL.items(), 70)
        },
        "drive plugged in": plug_in_drive,
        "drive full": fill_drive,
        "drive pulled out": pull_out_drive,
        "database lost, newest point restored": restore_newest,
    }


def power_cuts() -> dict[str, Callable[[Site], str]]:
    cuts: dict[str, Callable[[Site], str]] = {}
    for number, (what, (line, is_new)) in enumerate(STEPS.items(), 10):
        change = add_table(f"next{number}")
        cuts[what] = partial(power_cut, line=line, is_new=is_new, number=f"9.{number}", change=change)
    for number, (what, (line, is_new)) in enumerate(PLAIN_STEPS.items(), 40):
        name = f"{what}, the database stays as it is"
        cuts[name] = partial(power_cut, line=line, is_new=is_new, number=f"9.{number}", change="true")
    for number, (what, line) in enumerate(WAYS_BACK.items(), 50):
        change = f"{BROKEN['it starts in a trial only']}; {add_table(f'next{number}')}"
        cuts[f"on the way back, {what}"] = partial(
            power_cut, line=line, is_new=False, number=f"9.{number}", change=change
        )
    cuts["in the migration"] = partial(cut_in_migration, number="9.60")
    cuts["and again while it goes back at boot"] = partial(cut_twice, number="9.61")
    return {f"power cut: {what}": act for what, act in cuts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18700, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--next", type=Path, help="a checkout of a later release, to which the site is upgraded first")
    parser.add_argument("--only", default="", help="what this pattern is found in")
    options = parser.parse_args()
    site = Site(Box(options.box, options.folder / "upgrades"), Ports(options.port))
    print("| what | reads sent | found | twice | down (s) | |\n|---|---|---|---|---|---|")
    try:
        show(Row("install", None, None, None, None, install(site.box, site.ports, options.source)))
        site.watch.wait_until_up()
        site.set_up()
        if options.next:
            _under_load(site, "upgrade to the next release", partial(upgrade_to, checkout=options.next))
        for what, act in acts().items():
            if re.search(options.only, what):
                _under_load(site, what, act)
    finally:
        site.close()
        if site.box.is_enabled:
            site.box.power_cut()


def _under_load(site: Site, what: str, act: Callable[[Site], str]) -> None:
    attempt(what, lambda: site.under_load(what, lambda: act(site)))


if __name__ == "__main__":
    main()
