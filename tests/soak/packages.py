"""Life cycle of the Debian package with apt: `python -m tests.soak.packages --box TOOL --folder DIR --bundle FILE`.

TOOL makes a computer with the Debian of the bundle (see box.py), which systemd/make-bundle.sh made of this checkout.
Steps: install, verify the files, upgrade under load with changed settings, upgrade to a broken release and then to a
good one, damage the program, remove, install again and purge. With --older, a package of an earlier release is
installed first and upgraded as a technician does it. The table is that of site.py.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.soak.box import Box
from tests.soak.installed_site import EMAIL, PASSWORD, ROOT, Ports, Row, Site, add_sudo, show
from tests.soak.upgrades import BROKEN, add_table, version

APT = "DEBIAN_FRONTEND=noninteractive apt-get -y -qq --no-install-recommends"
# Changes that later releases make to the checkout.
FIRST, SECOND = add_table("first"), add_table("second")
RELEASES = {
    "1.1": FIRST,
    "1.2": f"{FIRST}; {BROKEN['a page that fails']}",
    "1.3": f"{FIRST}; {SECOND}; {BROKEN['it starts in a trial only']}",
    "1.4": f"{FIRST}; {SECOND}",
}


class Packages(NamedTuple):
    """Paths of the packages in the box, by version."""

    names: dict[str, str]

    def install(self, box: Box, number: str) -> str:
        """Install a version. Returns the output of apt, which may fail."""
        return box.run(
            f"{APT} install --allow-downgrades --reinstall {self.names[number]} 2>&1 || echo FAILED", check=False
        )


def make_packages(bundle: Path, folder: Path) -> dict[str, Path]:
    """Build a package of the bundle's checkout and one for each later release, with a changed checkout."""
    content = folder / "content"
    content.mkdir()
    subprocess.run(["tar", "xf", bundle, "-C", content], check=True)
    made = {}
    for number, change in RELEASES.items():
        release = folder / number
        _shell(f"cp -a {content} {release}; cd {release}/edge; {_as_version(number)}; {change}")
        _shell(
            f"cd {release}; rm SHA256SUMS; find . -type f -print0 | xargs -0 sha256sum >../sums; mv ../sums SHA256SUMS;"
            f" tar cf ../{number}.tar .; rm -r {release}"
        )
        made[number] = _make_package(folder / f"{number}.tar", folder)
    return {"1.0": _make_package(bundle, folder), **made}


def _as_version(number: str) -> str:
    return f"sed -i 's/__version__ = .*/__version__ = \"{number}\"/' edge/__init__.py"


def _make_package(bundle: Path, folder: Path) -> Path:
    said = subprocess.run(
        [ROOT / "systemd" / "make-deb.sh", bundle, folder], check=True, capture_output=True, text=True
    ).stdout
    return Path(said.strip().splitlines()[-1].partition(", ")[0])


def _shell(script: str) -> None:
    subprocess.run(["bash", "-euc", script], check=True)


def install_without_answers(site: Site, packages: Packages) -> str:
    """Install without answers: nothing runs and nothing is asked until an administrator creates the site."""
    said = packages.install(site.box, "1.0")
    assert "now make the site: sudo edge-setup" in said, said
    assert "edge" not in site.box.run("ls /opt; ls /etc/systemd/system"), said
    return "the package is there, and says: sudo edge-setup"


def half_installed(site: Site, packages: Packages, number: str) -> str:
    """Install with answers while a port is taken: reports it, creates nothing, and succeeds once the port is free."""
    site.box.run(
        f"mkdir -p /etc/edge; printf 'ORGANIZATION=Acme\\nEMAIL={EMAIL}\\nPASSWORD={PASSWORD}\\n' >/etc/edge/answers;"
        f" printf '%s' '{site.ports.answers()}' >>/etc/edge/answers;"
        f" python3 -m http.server {site.ports.http} >/dev/null 2>&1 & echo $! >/root/taker; sleep 1"
    )
    said = packages.install(site.box, number)
    assert f"Port {site.ports.http}" in said, said
    assert "FAILED" in said, said
    assert "edge.db" not in site.box.run("ls /opt/edge /var/lib/edge 2>/dev/null || true")
    assert site.box.run("stat -c %a /etc/edge/answers").strip() == "600"
    site.box.run(f"kill $(cat /root/taker); {APT} install -f 2>&1")
    assert "ok installed" in site.box.run("dpkg -s edge")
    site.box.run("test ! -e /etc/edge/answers")
    site.box.run("printf '\\n[ingest]\\nsighting_gap_seconds = 0\\n' >>/etc/edge/edge.toml; systemctl restart edge")
    site.watch.wait_until_up()
    site.set_up()
    return next(line for line in said.splitlines() if line.startswith("STOP")).removeprefix("STOP").strip()


def upgrade_older(site: Site, packages: Packages) -> str:
    """Upgrade the earlier release as a technician does, without options that force apt."""
    was = installed(site.box)
    said = site.box.run(f"{APT} install {packages.names['1.0']} 2>&1")
    now = installed(site.box)
    assert was != now, said
    assert "Upgraded to" in said, said
    return f"{was} to {now}; {verify(site)}"


def installed(box: Box) -> str:
    return box.run("dpkg-query -W -f '${Version}' edge").strip()


def verify(site: Site) -> str:
    """Check that dpkg knows the files that run, and that nothing was downloaded or built at the site."""
    box = site.box
    assert not box.run("dpkg --verify edge 2>&1"), "unchanged files differ"
    assert not box.run(
        "ls -d /opt/edge/venv/bin/pip* /opt/edge/venv/lib/python3*/site-packages/pip 2>/dev/null || true"
    )
    box.run("test -x /opt/edge/venv/bin/litestream")
    file = box.run("echo /opt/edge/venv/lib/python3*/site-packages/edge/clock.py").strip()
    box.run(f"cp -p {file} /root/clock.py; echo '# changed' >>{file}")
    said = box.run("dpkg --verify edge 2>&1 || true")
    box.run(f"cat /root/clock.py >{file}; touch -r /root/clock.py {file}")
    assert said.strip().endswith("edge/clock.py"), said
    assert not box.run("dpkg --verify edge 2>&1")
    return "dpkg --verify names a changed file, no pip"


def upgrade(site: Site, packages: Packages, number: str) -> str:
    """Upgrade a site with its own settings, which must be kept."""
    kept = "md5sum /etc/edge/edge.toml /etc/edge/signing.key /etc/edge/mqtt.password /etc/mosquitto/edge.passwd"
    before = site.box.run(kept)
    said = packages.install(site.box, number)
    assert version(site) == number, said
    assert site.box.run(kept) == before
    assert "ok installed" in site.box.run("dpkg -s edge")
    return f"{number} runs, settings are as before"


def refuse(site: Site, packages: Packages, number: str) -> str:
    before = version(site)
    said = packages.install(site.box, number)
    assert "FAILED" in said, said
    assert version(site) == before, said
    return next(line for line in said.splitlines() if line.startswith("edge-upgrade: ")).removeprefix("edge-upgrade: ")


def damaged(site: Site, packages: Packages) -> str:
    """Damage the program as a Debian upgrade to another Python does, and install again."""
    site.box.run("rm -r /opt/edge/venv/lib/python3*/site-packages; ! edge --version 2>/dev/null")
    said = packages.install(site.box, "1.4")
    assert version(site) == "1.4", said
    return "installed anew by apt, with its data"


def remove(site: Site, packages: Packages) -> str:
    """Remove and install again: settings and data must be kept."""
    site.box.run(f"{APT} remove edge 2>&1")
    left = site.box.run("ls /opt /etc/edge /var/lib/edge /etc/systemd/system; command -v edge || true")
    assert [name in left for name in ("edge.db", "edge.toml", "https.conf")] == [True] * 3, left
    assert [name in left for name in ("edge.service", "/usr/local/bin/edge")] == [False] * 2, left
    packages.install(site.box, "1.4")
    assert "HTTPS is off" not in site.box.run("edge-https show")
    return f"program and units gone, data kept; {version(site)} installed again, with HTTPS as before"


def purge(site: Site) -> str:
    site.box.run(f"{APT} purge edge 2>&1")
    left = site.box.run(
        "ls -d /opt/edge /etc/edge /var/lib/edge /etc/systemd/system/edge* /usr/local/*bin/edge* || true"
    )
    left += site.box.run(
        "getent passwd edge; ls /etc/mosquitto/conf.d /etc/avahi/services | grep edge || true", check=False
    )
    assert not left, left
    return "nothing is left"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--bundle", required=True, type=Path)
    parser.add_argument("--older", type=Path, help="a package of an earlier release")
    parser.add_argument("--port", type=int, default=18800, help="the first of five free ports")
    options = parser.parse_args()
    site = Site(Box(options.box, options.folder / "packages"), Ports(options.port))
    print("| what | reads sent | found | twice | down (s) | |\n|---|---|---|---|---|---|")
    try:
        packages = _set_up(site.box, options.bundle, options.older)
        if not options.older:
            _show("install", lambda: install_without_answers(site, packages))
        first = "older" if options.older else "1.0"
        _show("install, with a port that is taken", lambda: half_installed(site, packages, first))
        if options.older:
            site.under_load("upgrade of an earlier release", lambda: upgrade_older(site, packages))
        else:
            _show("files", lambda: verify(site))
        site.under_load("upgrade that changes the database", lambda: upgrade(site, packages, "1.1"))
        site.under_load("broken: a page that fails", lambda: refuse(site, packages, "1.2"))
        site.under_load("broken: it starts in a trial only", lambda: refuse(site, packages, "1.3"))
        site.under_load("upgrade after a broken one", lambda: upgrade(site, packages, "1.4"))
        site.under_load("a damaged program", lambda: damaged(site, packages))
        site.under_load("removed, and installed again", lambda: remove(site, packages))
        _show("purge", lambda: purge(site))
    finally:
        site.close()
        if site.box.is_enabled:
            site.box.power_cut()


def _set_up(box: Box, bundle: Path, older: Path | None) -> Packages:
    box.build()
    box.boot()
    box.run(f"{APT} update")
    add_sudo(box)
    with tempfile.TemporaryDirectory() as folder:
        made = make_packages(bundle, Path(folder))
        if older:
            made["older"] = older
        for path in made.values():
            box.put(path, f"/root/{path.name}")
    return Packages({number: f"/root/{path.name}" for number, path in made.items()})


def _show(what: str, act: Callable[[], str]) -> None:
    show(Row(what, None, None, None, None, act()))


if __name__ == "__main__":
    main()
