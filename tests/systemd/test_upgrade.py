"""systemd/edge-upgrade on a simulated computer, interrupted at each command. tests/soak/upgrades.py uses a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "systemd" / "edge-upgrade"
FOLDERS = ("opt", "usr/local", "etc/systemd/system", "mnt", "var/lib", "run")
CHECKOUT = "var/lib/checkout"
# Commands that the script calls. The simulated service migrates the database to its release's schema at the start, and
# records a read as soon as it may. A release with the file `broken` does not start.
FUNCTIONS = r"""
data=/var/lib/edge
[[ ! -e /etc/edge/edge.toml ]] || data=/mnt/edge
take_in() { [[ -e $data/upgrade-pending || ! -e $data/running ]] || tee -a $data/edge.db <<<$RANDOM >>/var/lib/taken; }
start() {
  ls $data/backups >>/var/lib/backups-at-start
  local wanted present release=/opt/edge/venv
  read -r wanted <$release/systemd/schema; read -r present <$data/edge.db
  if [[ -e $release/systemd/broken ]] || ((present > wanted)); then return 1; fi
  sed -i "1s/.*/$wanted/" $data/edge.db
  touch $data/running
  take_in
}
systemctl() {
  case "$*:" in
    stop*edge:) rm -f $data/running ;;
    start*edge:) start ;;
    start*edge-probation:) echo yes >>/var/lib/watched ;;
    show*) echo 0 ;;
  esac
}
setsid() { shift; exec "$@"; }
setpriv() { shift 4; "$@"; local code=$?; take_in; return $code; }
systemd-run() {
  local wanted
  wanted=$(cat /var/lib/checkout/systemd/schema)
  echo "{\"schema_before\": $(head -1 $data/edge.db), \"schema_after\": $wanted}"
}
python3() {
  if [[ $* = *edge.operations.root* ]]; then exec /usr/bin/python3 -I -B INTERRUPTED "$@"
  elif [[ $2 = -c ]]; then head -1 $data/edge.db
  elif [[ $2 = -m ]]; then mkdir -p "$4/bin" "$4/lib/python3.11/site-packages/edge/database/migrations"
    (cd "$4"/lib/*/*/edge/database/migrations; touch $(seq -f %g.sql $(cat /var/lib/checkout/systemd/schema)))
    ln -s /bin/true "$4/bin/pip"; cp /var/lib/program "$4/bin/edge"
  else exec /usr/bin/python3 "$@"; fi
}
timeout() { [[ ! -e /var/lib/too-slow ]] || return 1; shift; "$@"; }
sync() { :; }
journalctl() { :; }
"""
PROGRAMS = ("systemctl", "setsid", "setpriv", "systemd-run", "python3", "timeout", "sync", "journalctl")
INTERRUPTED = Path(__file__).with_name("interrupted.py")
EDGE = """#!/bin/sh
case $1 in
  backup) [ -e /etc/edge/edge.toml ] && data=/mnt/edge || data=/var/lib/edge
    touch $data/backups/new.db.gz; echo "Wrote $data/backups/new.db.gz now" ;;
  config) echo "http.listen = 0.0.0.0:8080" ;;
esac
"""


# A simulated release: it reports itself as worse than the previous one. Like the real one, it lists the
# organizations of a database of any schema, but does not start with a later one.
PROGRAM = """#!/bin/sh
case $1 in
  watch-upgrade)
    [ ! -e /var/lib/ended ] || kill -TERM $$
    [ ! -e /var/lib/worse ] || { echo "edge: reader dock has 0 messages" >&2; exit 1; } ;;
  downgrade-database)
    [ ! -e /var/lib/one-way ] || exit 1
    [ -e /etc/edge/edge.toml ] && data=/mnt/edge || data=/var/lib/edge
    sed -i "1s/.*/$2/" $data/edge.db
    echo "left out: extra" ;;
esac
"""


class Computer:
    """A computer that runs release 3, with a database of schema 3."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in (*FOLDERS, "var/lib/edge", "usr/local/bin", "usr/local/sbin"):
            (folder / name).mkdir(parents=True)
        self.data = folder / "var/lib/edge"
        (self.data / "edge.db").write_text("3\n")
        (self.data / "backups").mkdir()
        self._program = folder / "var/lib/program"
        self._program.write_text(PROGRAM)
        self._program.chmod(0o755)
        self._make_release("3", "opt/edge/releases/old")
        (folder / "opt/edge/releases/old/bin").mkdir()
        shutil.copy(self._program, folder / "opt/edge/releases/old/bin/edge")
        migrations = folder / "opt/edge/releases/old/lib/python3.11/site-packages/edge/database/migrations"
        migrations.mkdir(parents=True)
        for number in range(1, 4):
            (migrations / f"{number:04}_step.sql").touch()
        self._run(f"{SCRIPT} --use /opt/edge/releases/old && systemctl start edge")

    def upgrade(
        self, schema: str, *, broken: bool = False, at: str = "", signal: str = "KILL", during: str = ""
    ) -> str:
        """Upgrade, with a power cut, or another signal, at the command that matches `at`."""
        self._make_release(schema, CHECKOUT, *["broken"] * broken)
        return self._run(f"{during} {SCRIPT} /{CHECKOUT}", at, signal)

    def upgrade_on_full_disk(self, schema: str, at: str, full: str) -> str:
        """Upgrade on file systems of 4 MB. One of them becomes full at the command that matches `at`."""
        self._make_release(schema, CHECKOUT)
        said = self._run_on_full_disk(f"EDGE_UPGRADE_LEAST_MB=0 {SCRIPT} /{CHECKOUT}", at, full)
        assert (self._folder / "run/filled").exists(), said
        return said

    def boot(self, at: str = "") -> str:
        """Run edge-upgrade.service and edge.service as at boot."""
        (self.data / "running").unlink(missing_ok=True)
        unit = SCRIPT.with_suffix(".service").read_text()
        conditions = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ConditionPathExists")]
        is_left = " && ".join(f"test -e {path}" for path in conditions)
        resume = (
            unit.partition("\nExecStart=")[2].partition("\n")[0].replace("/usr/local/sbin/edge-upgrade", str(SCRIPT))
        )
        is_down = "[[ ! -e /var/lib/edge/running && ! -e /mnt/edge/running ]]"
        return self._run(f"if {is_left}; then {resume}; fi; if {is_down}; then systemctl start edge; fi", at)

    def watch(self, *, is_worse: bool, at: str = "", full: str = "") -> str:
        """Run the ten minutes of probation. The file system `full` becomes full at the command that matches `at`."""
        if is_worse:
            (self._folder / "var/lib/worse").touch()
        return self._run_on_full_disk(f"{SCRIPT} --watch", at, full)

    def back(self, at: str = "", full: str = "") -> str:
        return self._run_on_full_disk(f"{SCRIPT} --back", at, full)

    def watches(self) -> int:
        """Return how often the observation of a release was started."""
        return len((self._folder / "var/lib/watched").read_text().splitlines())

    def move_data(self) -> None:
        """Move the data to another disk, with a copy of the database left behind, as the manual says."""
        folder = self._folder
        shutil.copytree(self.data, folder / "mnt/edge")
        self.data = folder / "mnt/edge"
        shutil.copytree("/etc", folder / "etc", symlinks=True, dirs_exist_ok=True)
        (folder / "etc/edge").mkdir()
        (folder / "etc/edge/edge.toml").write_text('data_dir = "/mnt/edge"\n')

    def cannot_downgrade(self) -> None:
        (self._folder / "var/lib/one-way").touch()

    def build_again(self, *, works: bool) -> bool:
        """Return whether the installer builds a release as in a first installation."""
        self._make_release("4", CHECKOUT)
        if not works:
            (self._folder / "opt/edge/releases/old/bin/edge").unlink()
        names = "program=/opt/edge data=/var/lib/edge units=/etc/systemd/system"
        function = f"sed -n /^build_program/,/^}}/p {SCRIPT.parent}/install.sh"
        script = (
            f'say() {{ :; }}; {names} here={SCRIPT.parent} checkout=/{CHECKOUT}; eval "$({function})"; build_program'
        )
        return "/opt/edge/releases/" in self._run(script)

    def state(self) -> str:
        """Describe release, units and database, whether the service runs, and leftovers of the upgrade."""
        files = ["opt/edge/venv/systemd/schema", "etc/systemd/system/edge.service", "usr/local/sbin/edge-https"]
        lines = self._run("for f in " + " ".join(f"/{file}" for file in files) + "; do cat $f; done").split()
        schema, *reads = (self.data / "edge.db").read_text().split()
        assert reads == (self._folder / "var/lib/taken").read_text().split()
        left = [*self.data.glob("*upgrade*"), *(self._folder / "opt/edge").glob("upgrade"), *self.data.glob("trial")]
        runs = "runs" if (self.data / "running").exists() else "is down"
        return " ".join([*lines, schema, runs, *(path.name for path in left)])

    def releases(self) -> list[str]:
        return sorted(path.name for path in (self._folder / "opt/edge/releases").iterdir())

    def backups_at_last_start(self) -> list[str]:
        names = (self._folder / "var/lib/backups-at-start").read_text().split()
        return names[names.index("new.db.gz") :]

    def _make_release(self, schema: str, folder: str, *more: str) -> None:
        systemd = self._folder / folder / "systemd"
        systemd.mkdir(parents=True, exist_ok=True)
        for name in ("edge-https", "edge-mdns", "edge.service", "edge.path", "edge.timer", "schema", *more):
            (systemd / name).write_text(f"{schema}\n")
        shutil.copy(SCRIPT, systemd)
        (systemd / "edge").write_text(EDGE)
        (systemd.parent / "pyproject.toml").touch()

    def _run_on_full_disk(self, script: str, at: str, full: str) -> str:
        said = self._run(script, at, full=full)
        (self._folder / full / "filler").unlink(missing_ok=True)
        (self._folder / full / "rest").unlink(missing_ok=True)
        return said

    def _run(self, script: str, at: str = "", signal: str = "KILL", full: str = "") -> str:
        etc = ("etc",) if (self._folder / "etc/edge").exists() else ()
        return run_on(self._folder, script, (*etc, *FOLDERS), AT=at, DO=f"fill /{full}" if full else signal)


def run_on(folder: Path, script: str, mounted: tuple[str, ...] = FOLDERS, **variables: str) -> str:
    """Run a script on a simulated computer. `DO="fill /opt"` puts that folder on a file system of 4 MB."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "functions").write_text(FUNCTIONS.replace("INTERRUPTED", str(INTERRUPTED)))
    for name in PROGRAMS:
        (programs / name).write_text(f'#!/bin/bash\n. {programs}/functions\n{name} "$@"\n')
        (programs / name).chmod(0o755)
    mounts = "".join(f"mount --bind {folder}/{name} /{name}; " for name in mounted)
    after = ""
    if variables.get("DO", "").startswith("fill /"):
        full = variables["DO"].removeprefix("fill /")
        kept = folder / full
        mounts += f"mount -t tmpfs -o size=4m none /{full}; cp -a {kept}/. /{full}/; "
        after = f"; rm -rf {kept}/*; cp -a /{full}/. {kept}/"
    command = [*ALONE, f"{mounts} PATH={programs}:$PATH bash -c '{script}'{after}"]
    environment = {**os.environ, "ANSWERS": "all", **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    if (
        not shutil.which("unshare")
        or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode
    ):
        lacks("a namespace of its own for mounts")
    return Computer(tmp_path)


OLD, NEW = "3 3 3 3 runs", "4 4 4 4 runs"


@pytest.mark.parametrize("way", ["back", "worse", "broken", "power"])
def test_the_previous_release_returns_with_the_data_on_another_disk(computer: Computer, way: str) -> None:
    """Regression: the database in /var/lib/edge was kept, and the previous release could not read the other."""
    computer.move_data()
    computer.upgrade("4", broken=way == "broken", at="failed = unanswered(" if way == "power" else "")
    if way in ("back", "worse"):
        assert computer.state() == NEW
        said = computer.back() if way == "back" else computer.watch(is_worse=True)
        assert "left out: extra" in said
    if way == "power":
        computer.boot()
    assert computer.state() == OLD
    assert (computer.data / "warnings/upgrade").exists() == (way == "worse")


def test_a_rollback_waits_for_the_disk_with_the_data(computer: Computer) -> None:
    """Regression: with the disk not mounted at boot, the migrated database was left to the previous release."""
    computer.move_data()
    computer.upgrade("4", at="failed = unanswered(")
    kept = computer.data.rename(computer.data.with_name("elsewhere"))
    assert "/mnt/edge/edge.db is missing. Mount the disk of /mnt/edge" in computer.boot()
    kept.rename(computer.data)
    computer.boot()
    assert computer.state() == OLD


def test_broken_settings_stop_an_upgrade_before_it_takes_another_database(computer: Computer) -> None:
    computer.move_data()
    (computer.data.parents[1] / "etc/edge/edge.toml").write_text('data_dir = "/mnt')
    said = computer.upgrade("4")
    assert "/etc/edge/edge.toml cannot be read" in said
    assert computer.state() == OLD


def test_a_release_takes_over_with_its_units_and_its_schema(computer: Computer) -> None:
    assert computer.state() == OLD
    assert "Upgraded to" in computer.upgrade("4")
    assert computer.state() == NEW


def test_the_backup_of_an_upgrade_is_pinned_until_its_end(computer: Computer) -> None:
    (computer.data / "backups/old.pinned").touch()  # left by a killed upgrade
    computer.upgrade("4")
    assert computer.backups_at_last_start() == ["new.db.gz", "new.db.gz.pinned"]
    assert (computer.data / "backups/new.db.gz.pinned").exists()
    computer.watch(is_worse=False)
    assert [path.name for path in (computer.data / "backups").iterdir()] == ["new.db.gz"]


def test_a_release_that_does_worse_is_replaced_by_the_one_before(computer: Computer) -> None:
    computer.upgrade("3")
    said = computer.watch(is_worse=True)
    assert "reader dock has 0 messages. The previous release runs again" in said
    assert computer.state() == OLD
    assert "reader dock has 0 messages" in (computer.data / "warnings/upgrade").read_text()
    assert computer.releases() == ["old"]
    assert [path.name for path in (computer.data / "backups").iterdir()] == ["new.db.gz"]


def test_a_cut_of_power_while_a_worse_release_is_replaced_changes_nothing(computer: Computer) -> None:
    computer.upgrade("3")
    computer.watch(is_worse=True, at="_put_in_place(old.release, failed)")
    assert "Back to" not in computer.boot()
    assert computer.state() == OLD
    assert computer.releases() == ["old"]


def test_a_watch_ended_by_a_signal_is_no_verdict(computer: Computer) -> None:
    computer.upgrade("3")
    running = computer.releases()
    (computer.data.parent / "ended").touch()
    assert "the watch was interrupted" in computer.watch(is_worse=False)
    assert computer.releases() == running
    (computer.data.parent / "ended").unlink()
    assert "is kept" in computer.watch(is_worse=False)


def test_a_release_that_changed_the_database_stays_and_is_reported(computer: Computer) -> None:
    """The previous release cannot read the database, and its copy lacks all later input."""
    computer.upgrade("4")
    computer.cannot_downgrade()
    assert "it is kept" in computer.watch(is_worse=True)
    assert computer.state() == NEW
    assert "it is kept" in (computer.data / "warnings/upgrade").read_text()
    assert "cannot read the current database" in computer.back()
    assert computer.state() == NEW


def test_a_worse_release_with_a_migration_is_replaced_with_all_reads(computer: Computer) -> None:
    computer.upgrade("4")
    assert "The previous release runs again" in computer.watch(is_worse=True)
    assert computer.state() == OLD
    assert "left out: extra" in (computer.data / "warnings/upgrade").read_text()


def test_the_new_release_runs_again_if_a_full_disk_stops_the_rollback(computer: Computer) -> None:
    computer.upgrade("4")
    said = computer.watch(is_worse=True, at="if not note(STATE, previous):", full="opt/edge")
    assert "cannot write to" in said
    assert computer.state() == NEW


def test_the_new_release_runs_again_if_a_full_disk_stops_back(computer: Computer) -> None:
    computer.upgrade("4")
    computer.watch(is_worse=False)
    assert "cannot write to" in computer.back(at="if file == PREVIOUS and not note(", full="opt/edge")
    assert computer.state() == NEW
    assert "Back to" in computer.back()
    assert computer.state() == OLD


def test_the_observation_goes_on_if_a_return_on_command_is_prevented(computer: Computer) -> None:
    computer.upgrade("4")
    before = computer.watches()
    assert "cannot write to" in computer.back(at="if not note(STATE, previous):", full="opt/edge")
    assert computer.state() == NEW
    assert computer.watches() == before + 1
    computer.watch(is_worse=True, at="if not note(STATE, previous):", full="opt/edge")
    assert computer.watches() == before + 1


@pytest.mark.parametrize("is_proved", [False, True])
def test_back_after_a_migration_keeps_all_reads(computer: Computer, is_proved: bool) -> None:
    computer.upgrade("4")
    if is_proved:
        computer.watch(is_worse=False)
    said = computer.back()
    assert "Back to" in said
    assert "left out: extra" in said
    assert computer.state() == OLD


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ('if not works(EDGE, "backup"):', NEW),
        ('works("systemctl", "stop", "edge")', NEW),
        ("left = read(", NEW),
        ("if not note(STATE, previous):", NEW),
        ("new.replace(file)", NEW),
        ("_put_in_place(old.release, failed)", OLD),
        ("for file in (STATE, PROBATION):", OLD),
    ],
)
def test_after_a_power_cut_during_rollback_one_release_has_all_reads(
    computer: Computer, at: str, expected: str
) -> None:
    """Until the way back is remembered, the newer release migrates the database again at its start."""
    computer.upgrade("4")
    assert "Back to" not in computer.back(at=at)
    computer.boot()
    assert computer.state() == expected


@pytest.mark.parametrize("is_proved", [False, True])
def test_the_previous_release_returns_on_command(computer: Computer, is_proved: bool) -> None:
    computer.upgrade("3")
    if is_proved:
        assert "is kept" in computer.watch(is_worse=False)
    assert len(computer.releases()) == 2
    assert "Back to" in computer.back()
    assert computer.state() == OLD
    assert computer.releases() == ["old"]
    assert "there is no previous release" in computer.back()


def test_an_upgrade_ends_the_probation_of_the_one_before(computer: Computer) -> None:
    computer.upgrade("3")
    computer.upgrade("4")
    assert "is kept" in computer.watch(is_worse=False)
    assert len(computer.releases()) == 2


@pytest.mark.parametrize("at", ["done = result(*unit", "if not is_check:"])
def test_the_release_of_a_killed_upgrade_is_removed_at_the_next_start(computer: Computer, at: str) -> None:
    """Regression: each left 770 MB."""
    computer.upgrade("4", at=at)
    assert len(computer.releases()) == 2
    computer.boot()
    assert computer.releases() == ["old"]
    assert computer.state() == OLD


def test_a_start_during_the_probation_and_after_it_keeps_the_previous_release(computer: Computer) -> None:
    computer.upgrade("3")
    computer.boot()
    assert len(computer.releases()) == 2
    computer.watch(is_worse=False)
    computer.boot()
    assert len(computer.releases()) == 2
    assert "Back to" in computer.back()


def test_two_releases_of_one_second_have_folders_of_their_own(computer: Computer) -> None:
    stopped = "NOW=20260101T000000Z"
    computer.upgrade("3", during=stopped)
    assert "Upgraded to" in computer.upgrade("4", during=stopped)
    assert computer.state() == NEW


def test_a_release_that_does_not_start_is_reported_and_rolled_back(computer: Computer) -> None:
    """No reads are lost, including those during the copy of the database."""
    assert "The previous release runs again" in computer.upgrade("4", broken=True)
    assert computer.state() == OLD


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("done = result(*unit", OLD),
        ('as_edge("sync", COPY_NEW)', OLD),
        ("new.replace(file)", OLD),
        ("_put(file, UNITS, 0o644)", OLD),
        ('works("systemctl", "stop", "edge")', OLD),
        ('as_edge("mv", "-T", COPY_NEW, COPY)', OLD),
        ('as_edge("touch", PENDING)', OLD),
        ("if not point_to(release):", OLD),
        ("new.replace(VENV)", OLD),
        ('if not works("timeout", trial.start_limit', OLD),
        ("failed = unanswered(", OLD),
        ("STATE.unlink()", OLD),
        ('as_edge("rm", "-f", COPY)', NEW),
        ('as_edge("rm", "-f", PENDING)', NEW),
        ('works("systemctl", "start", *_TIMERS)', NEW),
    ],
)
def test_after_a_power_cut_one_release_runs_with_its_own_database(computer: Computer, at: str, expected: str) -> None:
    assert "Upgraded to" not in computer.upgrade("4", at=at)
    computer.boot()
    assert computer.state() == expected


@pytest.mark.parametrize(
    "at",
    [
        "install_units(old.release)",
        "_put_in_place(old.release, failed)",
        'as_edge("mv", "-T", COPY, DATABASE)',
        'as_edge("rm", "-f", PENDING, COPY_NEW, READS)',
        "for file in (STATE, PROBATION):",
    ],
)
def test_a_second_cut_while_it_goes_back_changes_nothing(computer: Computer, at: str) -> None:
    computer.upgrade("4", at="failed = unanswered(")
    assert computer.state() != OLD
    computer.boot(at=at)
    computer.boot()
    assert computer.state() == OLD


@pytest.mark.parametrize("schema", ["3", "4"])
@pytest.mark.parametrize(
    ("full", "at"),
    [
        ("opt", "release = build(checkout)"),
        ("opt", 'works("cp", "-r", checkout / "systemd"'),
        ("opt", 'say("Testing it'),
        ("opt", "if not note(STATE, previous):"),
        ("opt", "sync(new)"),
        ("opt", "install_units(tried.release)"),
        ("opt", "if not point_to(release):"),
        ("opt", 'if not works("timeout", trial.start_limit'),
        ("opt", "if not note(PROBATION, previous):"),
        ("etc/systemd/system", "install_units(tried.release)"),
        ("etc/systemd/system", "_put(file, UNITS, 0o644)"),
        ("usr/local", "install_units(tried.release)"),
    ],
)
def test_a_disk_that_fills_up_leaves_one_of_the_two_releases_running(
    computer: Computer, full: str, at: str, schema: str
) -> None:
    said = computer.upgrade_on_full_disk(schema, at, full)
    after = computer.state()
    if "Upgraded to" in said:
        assert after == NEW.replace("4 runs", f"{schema} runs").replace("4 4 4", f"{schema} " * 2 + schema)
        return
    assert after == OLD, said
    assert "nothing was changed" in said or "nothing was lost" in said, said
    assert computer.releases() == ["old"]
    assert not list(computer.data.glob("backups/*.pinned"))


def test_an_upgrade_without_room_is_refused_before_anything_is_changed(computer: Computer) -> None:
    said = computer.upgrade("4", during="EDGE_UPGRADE_LEAST_MB=999999999")
    assert "Nothing was changed: free disk space there" in said
    assert "Backup" not in said
    assert computer.state() == OLD


@pytest.mark.parametrize(
    "at", ['works("systemctl", "stop", "edge")', 'if not works("timeout", trial.start_limit', "STATE.unlink()"]
)
def test_a_lost_shell_during_the_upgrade_leaves_the_new_release(computer: Computer, at: str) -> None:
    computer.upgrade("4", at=at, signal="HUP")
    assert computer.state() == NEW


def test_nothing_is_changed_while_another_upgrade_runs(computer: Computer) -> None:
    assert "another upgrade is running" in computer.upgrade("4", during="flock /run/edge-upgrade.lock")
    assert computer.state() == OLD


@pytest.mark.parametrize("works", [False, True])
def test_the_installer_replaces_a_program_that_is_broken(computer: Computer, works: bool) -> None:
    """Broken as after a Debian upgrade to another Python. A working one is upgraded with trial and rollback."""
    assert computer.build_again(works=works) == (not works)


def test_a_copy_that_an_earlier_upgrade_left_is_never_put_back(computer: Computer) -> None:
    """Restoring it would lose all reads since then."""
    (computer.data / "edge.db.before-upgrade").write_text("3\n")
    assert "The previous release runs again" in computer.upgrade("3", broken=True)
    assert computer.state() == OLD


def test_an_upgrade_that_was_killed_is_ended_before_the_next_one(computer: Computer) -> None:
    computer.upgrade("4", at='as_edge("rm", "-f", COPY)')
    assert "systemctl start edge-upgrade" in computer.upgrade("5")
    computer.boot()
    assert computer.state() == NEW


def test_all_slow_steps_run_before_the_service_stops(computer: Computer) -> None:
    """The downtime is only the final copy of the database and the start."""
    computer.upgrade("4", at='works("systemctl", "stop", "edge")')
    release, service, script, schema, *rest = computer.state().split()
    assert (release, schema) == ("3", "3")
    assert (service, script) == ("4", "4")
    assert rest == ["runs", "edge.db.before-upgrade.new", "upgrade"]
