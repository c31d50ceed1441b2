"""Parts of systemd/install.sh: the answers, the network name, and the removal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from edge.errors import Invalid
from edge.operations.root.releases import SCRIPTS
from edge.people import passwords
from edge.people.passwords import MIN_LENGTH

SYSTEMD = Path(__file__).parents[2] / "systemd"
INSTALLER = SYSTEMD / "install.sh"
STUBS = 'fail() { echo "install.sh: $*"; exit 1; }; '


def run(functions: str, script: str) -> str:
    """Run a script with some functions of the installer. Returns its output."""
    picked = "".join(f"eval \"$(sed -n '/^{name}()/,/}}$/p' {INSTALLER})\"; " for name in functions.split())
    multi = picked.replace("/}$/p", "/^}/p")
    one_line = {"name_of", "is_name"}
    for name in one_line & set(functions.split()):
        multi = multi.replace(f"sed -n '/^{name}()/,/^}}/p'", f"sed -n '/^{name}()/p'")
    done = subprocess.run(["bash", "-euc", STUBS + multi + script], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "name"),
    [("edge-hall7", "edge-hall7"), ("Edge-Hall7", "edge-hall7"), ("EDGE-HALL7.LOCAL", "edge-hall7")],
)
def test_a_network_name_in_capitals_is_the_same_name(tmp_path: Path, given: str, name: str) -> None:
    answers = tmp_path / "answers"
    answers.write_text(f"NETWORK_NAME={given}\n")
    said = run(
        "read_answers name_of is_name",
        f"read_answers {answers}; echo $network_name",
    )
    assert said.split() == [name]
    assert answers.stat().st_mode & 0o777 == 0o600


def test_all_files_are_on_the_disk_before_the_installer_reports_success() -> None:
    """Regression: after a power cut, the authority, its key and the settings of the broker were empty."""
    main = INSTALLER.read_text().partition("main() {")[2].partition("\n}")[0]
    assert [line.split()[:2] for line in main.splitlines()[-2:]] == [["sync", "#"], ["installation", "summary"]]


@pytest.mark.parametrize("given", ["hall 7", "hall_7", "-hall", "hall.example.com"])
def test_a_name_that_is_none_is_refused_before_anything_is_changed(tmp_path: Path, given: str) -> None:
    (tmp_path / "answers").write_text(f"NETWORK_NAME={given}\n")
    said = run("read_answers name_of is_name", f"read_answers {tmp_path}/answers; echo went on")
    assert f"NETWORK_NAME: {given} is not a name" in said
    assert "went on" not in said


def test_the_name_that_avahi_has_is_proposed_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "edge-mdns").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "edge-mdns").chmod(0o755)
    (tmp_path / "avahi-daemon.conf").write_text("[server]\nhost-name=Hall7\n")
    script = INSTALLER.read_text().replace("/etc/avahi/avahi-daemon.conf", f"{tmp_path}/avahi-daemon.conf")
    functions = "\n".join(re.findall(r"^(?:choose|proposed)_name\(\).*?^}", script, re.M | re.S))
    said = run("name_of is_name", f"network_name= here={tmp_path}; {functions}\nchoose_name")
    assert said == "name hall7\n"


def test_an_installation_that_was_interrupted_before_the_site_was_made_can_be_repeated(tmp_path: Path) -> None:
    """Regression: the second run took it for an upgrade, started the service, and could not make the site then."""
    (tmp_path / "edge.db").touch()
    (tmp_path / "edge").write_text(f'#!/bin/sh\n[ "$1" = init ] || exit 0\necho "made while $(cat {tmp_path}/state)"\n')
    (tmp_path / "edge").chmod(0o755)
    function = re.search(r"^make_site\(\).*?^}", INSTALLER.read_text(), re.M | re.S)
    assert function
    made = run(
        "",
        f"say() {{ :; }}; systemctl() {{ echo $1 >{tmp_path}/state; }}; echo running >{tmp_path}/state;"
        f" data={tmp_path} organization=Acme email=a@b.test password=x;"
        f" {function[0].replace('/usr/local/bin/edge', f'{tmp_path}/edge')}; make_site",
    )
    assert made == "made while stop\n"


@pytest.mark.parametrize(
    ("files", "https"),
    [
        ([], "yes"),
        (["edge.toml"], ""),
        (["edge.toml", "https.conf"], "yes"),
        (["edge.toml", "unfinished"], "yes"),
    ],
)
def test_an_interrupted_installation_keeps_the_choice_of_https_for_the_next_run(
    tmp_path: Path, files: list[str], https: str
) -> None:
    """Regression: the second run ended without HTTPS, and labels linked to addresses that did not respond."""
    for name in files:
        (tmp_path / name).touch()
    function = re.search(r"^write_settings\(\).*?^}", INSTALLER.read_text(), re.M | re.S)
    assert function
    said = run(
        "",
        "install() { :; }; chown() { :; }; choose_name() { :; }; installation() { echo https://hall7.local; };"
        f" settings={tmp_path} data=/var/lib/edge here={SYSTEMD} https=yes https_port=443"
        f" https_name= network_name=hall7 http_port= mqtt_port= publisher=; {function[0]}; write_settings; echo $https",
    )
    assert said.strip() == https
    if https and "https.conf" not in files:
        assert (tmp_path / "unfinished").exists()
        assert "https://hall7.local" in (tmp_path / "edge.toml").read_text()


@pytest.mark.parametrize(("file", "made"), [("edge-1.db.gz", ""), ("edge-1.db.gz.pinned", "backup\n")])
def test_a_new_site_gets_a_backup(tmp_path: Path, file: str, made: str) -> None:
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / file).touch()
    (tmp_path / "edge").write_text('#!/bin/sh\necho "$1"\n')
    (tmp_path / "edge").chmod(0o755)
    function = re.search(r"^first_backup\(\).*?^}", INSTALLER.read_text(), re.M | re.S)
    assert function
    script = function[0].replace("/usr/local/bin/edge", f"{tmp_path}/edge")
    assert run("", f"say() {{ :; }}; data={tmp_path}; {script}; first_backup") == made


def test_everything_that_an_upgrade_installs_is_removed() -> None:
    removed = re.search(r"/usr/local/sbin/edge-\{([a-z,]+)\}", INSTALLER.read_text())
    assert removed
    assert {f"edge-{name}" for name in removed[1].split(",")} == set(SCRIPTS)


def test_mosquitto_settings_of_edge_do_not_block_an_upgrade(tmp_path: Path) -> None:
    """The installer runs again for each upgrade with a newer checkout or package."""
    code = (*SYSTEMD.glob("edge-*"), INSTALLER, *(SYSTEMD.parent / "edge/operations/root").glob("*.py"))
    scripts = "".join(path.read_text() for path in code if path.suffix in ("", ".sh", ".py"))
    own = set(re.findall(r"(?:/etc/mosquitto/|\")conf\.d/(edge[-_a-z]*\.conf)", scripts))
    assert own == {"edge.conf", "edge-tls.conf", "edge_share.conf"}
    (tmp_path / "conf.d").mkdir()
    for name in own:
        (tmp_path / "conf.d" / name).write_text("max_queued_messages 1000000\n")
    text = (SYSTEMD / "check-machine").read_text().replace("/etc/mosquitto", str(tmp_path))
    function = re.search(r"^check_broker\(\).*?^}", text, re.MULTILINE | re.DOTALL)
    assert function
    check = f'ok() {{ echo ok; }}; stop() {{ echo "stop: $*"; }}; {function[0]}; check_broker'
    assert run("", check) == "ok\n"
    (tmp_path / "conf.d/mine.conf").write_text("listener 1884\n")
    assert "mine.conf: listener 1884" in run("", check)


DATA = f"checkout={SYSTEMD.parent} here={SYSTEMD} home=/var/lib/edge data=/var/lib/edge disaster= disks=; "


@pytest.mark.parametrize(
    ("toml", "folder"),
    [
        ('data_dir = "/mnt/ssd/edge"\n', "/mnt/ssd/edge"),
        ('\ufeffdata_dir = "/mnt/ssd/edge"\n', "/mnt/ssd/edge"),
        ("\tdata_dir\t=\t'/mnt/my ssd/edge' # tabs\n", "/mnt/my ssd/edge"),
        ("[http]\n", "/var/lib/edge"),
        (None, "/var/lib/edge"),
    ],
)
def test_the_installer_reads_the_folder_of_the_database_as_the_service_does(
    tmp_path: Path, toml: str | None, folder: str
) -> None:
    """Regression: with a byte order mark or a tab, the database of another folder was taken for the site's."""
    if toml is not None:
        (tmp_path / "edge.toml").write_text(toml, "utf-8")
    said = run("find_data installation", f"{DATA} find_data {tmp_path}/edge.toml; echo $data")
    assert said == f"{folder}\n"


def test_broken_settings_stop_the_installer(tmp_path: Path) -> None:
    (tmp_path / "edge.toml").write_text('data_dir = "/mnt', "utf-8")
    said = run("find_data installation", f"{DATA} find_data {tmp_path}/edge.toml; echo went on")
    assert "cannot be read" in said
    assert "went on" not in said


def test_a_port_that_is_named_twice_stops_the_installation() -> None:
    """Regression: it was found after the machine had changed, and a second run could not repair it."""
    function = re.search(r"^check_ports\(\).*?^}", (SYSTEMD / "check-machine").read_text(), re.MULTILINE | re.DOTALL)
    assert function
    begin = f"ok() {{ :; }}; ss() {{ :; }}; stops=1; stop() {{ echo $*; }}; {function[0]}"
    assert "Port 8080 is named twice" in run("", f"{begin}; check_ports 'http=8080 mqtt=8080 redirect=80'")
    assert run("", f"{begin}; check_ports 'http=8080 mqtt=1883'") == ""


@pytest.mark.parametrize(
    ("files", "is_refused"),
    [
        *[(["edge.toml"], True), (["edge.toml", "edge.db"], False), (["edge.toml", "unfinished"], False), ([], False)],
        *[(["signing.key"], True), (["signing.key", "edge.db"], False), (["signing.key", "unfinished"], False)],
        *[(["broker/passwd"], True), (["broker/passwd", "edge.db"], False), (["venv"], True), (["broker/"], False)],
    ],
)
def test_no_empty_site_is_started_where_one_was(tmp_path: Path, files: list[str], is_refused: bool) -> None:
    """Regression: with the disk of the data not mounted, or the settings lost, the installer made an empty site."""
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name == "venv":
            (tmp_path / name).symlink_to("releases/1")
        elif not name.endswith("/"):
            (tmp_path / name).write_text("x")
    folders = f"settings={tmp_path} data={tmp_path} home={tmp_path} program={tmp_path}"
    said = run("require_data", f"{DATA} {folders}; require_data; echo went on")
    assert ("othing was changed" in said, "went on" in said) == (is_refused, not is_refused)


def test_settings_that_were_lost_are_written_again_for_the_only_database(tmp_path: Path) -> None:
    """Regression: the site stayed down, because the remedy of the doctor left a port of Caddy and no data_dir."""
    for name in ("settings/signing.key", "disk/edge/edge.db", "mosquitto/conf.d/edge.conf"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("# Broker\nlistener 1884\n")
    (tmp_path / "settings/https.conf").write_text(
        "PORT=8443\nREDIRECT_PORT=81\nMQTT_PORT=8884\nNAMES=\nPLAIN_PORT=90\n"
    )
    stubs = "install() { :; }; chown() { :; }; choose_name() { network_name=hall7; };"
    stubs += " installation() { echo $*; }; systemctl() { echo $*; };"
    begin = (
        f"{DATA} {stubs} settings={tmp_path}/settings home={tmp_path}/none program={tmp_path}/none "
        f"disks=({tmp_path}/disk) mosquitto={tmp_path}/mosquitto https=yes publisher=; read_answers ''; require_data; "
    )
    functions = "require_data read_answers recall_choices write_settings"
    said = run(functions, f"{begin} recall_choices; echo $https_port $redirect_port $mqtts_port; write_settings")
    assert f"written again for the database in {tmp_path}/disk/edge" in said
    assert "8443 81 8884\nstop caddy.service" in said
    written = (tmp_path / "settings/edge.toml").read_text()
    assert f'data_dir = "{tmp_path}/disk/edge"' in written
    assert 'listen = "0.0.0.0:90"' in written
    assert "127.0.0.1:1884" in written
    assert 'public_url = "public-url hall7.local 90 8443"' in written
    (tmp_path / "settings/edge.toml").unlink()
    (tmp_path / "disk/copy").mkdir()
    (tmp_path / "disk/copy/edge.db").touch()
    said = run(functions, f"rm -f {tmp_path}/settings/unfinished; {begin} echo went on")
    assert "2 databases" in said
    assert "went on" not in said


def test_a_box_that_was_without_https_stays_without_it(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/edge.conf").write_text("listener 1883\n")
    begin = f"{DATA} settings={tmp_path} mosquitto={tmp_path} https=yes mqtt_port=; "
    assert run("recall_choices", f"{begin} recall_choices; echo /$https/$mqtt_port") == "//1883\n"


def test_the_program_of_the_box_is_used_and_not_installed_once_more(tmp_path: Path) -> None:
    """Regression: the copy began with the Python of the original, which the next upgrade removed."""
    release = tmp_path / "releases/1"
    (release / "bin").mkdir(parents=True)
    (release / "bin/edge").write_text("#!/bin/sh\n")
    (tmp_path / "venv").symlink_to(release)
    begin = f"{DATA} checkout={tmp_path}/venv program={tmp_path} units={tmp_path}; build_program; echo $first"
    assert "does not start, and nothing was changed" in run("build_program", begin)
    (release / "bin/edge").chmod(0o755)
    assert run("build_program", begin) == f"{release}\n"


@pytest.mark.parametrize(("free", "note"), [("1200", "about 900 MB after the installation"), ("1300", "")])
def test_a_small_disk_is_named_before_the_installation(tmp_path: Path, free: str, note: str) -> None:
    """Regression: the service deleted history at once, and only the manual said from which size on."""
    text = (SYSTEMD / "check-machine").read_text()
    parts = re.findall(r"^[a-z_]+_mb=\d+|^(?:check_disk|ok|note|stop)\(\).*?(?:; }$|^})", text, re.M | re.S)
    begin = f"df() {{ echo Avail; echo {free}; }}; settings={tmp_path}; stops=0; "
    said = run("", begin + "\n".join(parts) + "\ncheck_disk")
    assert note in said
    assert said.startswith("NOTE" if note else "ok")
    (tmp_path / "edge.toml").touch()
    assert run("", begin + "\n".join(parts) + "\ncheck_disk") == f"ok    {free} MB of disk are free\n"


def test_answers_that_an_installed_box_does_not_use_are_named(tmp_path: Path) -> None:
    """Regression: another port or name was ignored without a word."""
    answers = tmp_path / "answers"
    answers.write_text("ORGANIZATION=Acme\nNETWORK_NAME=edge-hall9\nHTTPS_PORT=8443\n")
    for name in ("edge.toml", "mqtt.password", "signing.key"):
        (tmp_path / name).write_text("x")
    begin = f"{DATA} settings={tmp_path} publisher=; install() {{ :; }}; chown() {{ :; }}; https=yes; "
    said = run("read_answers name_of is_name write_settings", f"{begin} read_answers {answers}; write_settings")
    assert "not used, because this box is installed already: NETWORK_NAME HTTPS_PORT." in said
    answers.write_text("ORGANIZATION=Acme\n")
    assert run("read_answers name_of is_name write_settings", f"{begin} read_answers {answers}; write_settings") == ""


def test_a_disaster_file_that_is_not_used_leaves_no_program(tmp_path: Path) -> None:
    """Regression: `nothing was changed`, but the program stayed."""
    release = tmp_path / "releases/1"
    (release / "bin").mkdir(parents=True)
    (release / "bin/edge").write_text("#!/bin/sh\nmkdir -p $3/settings; echo >$3/settings/edge.toml\n")
    (release / "bin/edge").chmod(0o755)
    functions = "open_disaster_file give_up"
    begin = (
        f"{DATA} say() {{ :; }}; find_data() {{ data=/nonexistent/edge; }}; scratch= settings={tmp_path} "
        f"program={tmp_path} first={release} identity=key disaster=file; "
    )
    said = run(functions, f"{begin} open_disaster_file; echo went on")
    assert "the old box had its data in /nonexistent/edge" in said
    assert "went on" not in said
    assert not release.parent.exists()


def test_a_disaster_file_is_refused_on_a_box_with_a_site_before_anything_is_installed(tmp_path: Path) -> None:
    begin = f"{DATA} settings={tmp_path} data={tmp_path}; "
    assert "--identity KEYFILE" in run("require_fresh", f"{begin} identity=; require_fresh")
    assert run("require_fresh", f"{begin} identity=key; require_fresh") == ""
    (tmp_path / "edge.toml").touch()
    assert "already has a site" in run("require_fresh", f"{begin} identity=key; require_fresh")
    main = INSTALLER.read_text().partition("main() {")[2].partition("\n}")[0]
    assert main.index("require_fresh") < main.index("install_packages")


@pytest.mark.parametrize(
    "password",
    [
        *("short", "12345678901", "123456789012", "Password1234", "  !password-2024 ", "QWERTYUIOP123"),
        *("manchester12 united", "-e-f--qwerty--", "correct horse battery", "Schäferhund im Hof", "\\*[a]?.*.*.*.*"),
    ],
)
def test_the_installer_refuses_the_passwords_that_edge_refuses(tmp_path: Path, password: str) -> None:
    """Regression: one of the most used passwords was refused after minutes, at the end of the installation."""
    (tmp_path / "answers").write_text(f"PASSWORD={password}\n")
    begin = f"least={MIN_LENGTH} data={tmp_path} checkout={SYSTEMD.parent}"
    said = run("read_answers password_fault", f"{begin}; read_answers {tmp_path}/answers; echo went on")
    try:
        passwords.check(password)
    except Invalid:
        assert "PASSWORD: it " in said
        assert "nothing was changed" in said
    else:
        assert said == "went on\n"
    (tmp_path / "edge.db").touch()  # of a site, whose people have passwords already
    assert run("read_answers", f"{begin}; read_answers {tmp_path}/answers; echo went on") == "went on\n"


def test_the_installer_asks_before_it_installs_anything() -> None:
    """Regression: the first question came after a minute without a word."""
    main = INSTALLER.read_text().partition("main() {")[2].partition("\n}")[0]
    steps = [line.split()[0] for line in main.splitlines() if line.split()]
    assert steps.index("ask") < steps.index("install_packages") < steps.index("build_program")
    assert f"least={MIN_LENGTH}\n" in INSTALLER.read_text()


def test_a_purge_with_the_disk_of_the_data_away_does_not_claim_the_database(tmp_path: Path) -> None:
    function = re.search(r"^uninstall\(\).*?^}", INSTALLER.read_text(), re.M | re.S)
    assert function
    names = "systemctl() { :; }; userdel() { :; }; say() { :; }; rm() { :; }; rmdir() { :; }; "
    folders = f"here={tmp_path} units={tmp_path} program={tmp_path} home={tmp_path}/home settings={tmp_path}/settings"
    said = run("", f"{names}{folders} data={tmp_path}/mnt; {function[0]}; uninstall yes")
    assert "no database was in" in said
    assert "removed the program, its settings, the database" not in said
