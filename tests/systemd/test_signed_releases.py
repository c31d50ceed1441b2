"""Only bundles and packages signed by the publisher are accepted, before anything in them runs."""

from __future__ import annotations

import base64
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.systemd.test_upgrade import FOLDERS, NEW, OLD, Computer, computer, run_on

pytestmark = pytest.mark.slow

__all__ = ["computer"]

SYSTEMD = Path(__file__).parents[2] / "systemd"
VERIFY, SIGN = SYSTEMD / "edge-verify", SYSTEMD / "sign-release"
FILES = {
    "edge/pyproject.toml": "",
    "edge/systemd/edge-upgrade": "#!/bin/sh\n",
    "wheels/blinker-1.9.0-py3-none-any.whl": "a wheel",
    "packages/python3_3.11~rc1+b1_amd64.deb": "a package",
}


def run(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in arguments], capture_output=True, text=True, cwd=folder)


def ok(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("edge-verify: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def target() -> str:
    version = next(
        line.partition("=")[2].strip('"')
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("VERSION_ID=")
    )
    return f"debian{version} {ok('dpkg', '--print-architecture').strip()}\n"


class Publisher:
    """Has a key and makes bundles with the last step of make-bundle.sh; the other steps need a network."""

    def __init__(self, folder: Path, name: str = "publisher") -> None:
        self.folder, self.key = folder, folder / f"{name}.key"
        ok(SIGN, "--new-key", self.key)
        self.public = folder / f"{name}.key.pub"

    def bundle(
        self, files: dict[str, str] | None = None, made: str = "2026-11-23T08:00:00Z", *, signed: bool = True
    ) -> Path:
        content = self.folder / "content"
        release = {"release": f"version 0.1.0\nmade {made}\ncommit abc\n", "target": target()}
        for name, text in {**FILES, **release, **(files or {})}.items():
            (content / name).parent.mkdir(parents=True, exist_ok=True)
            (content / name).write_text(text)
        (content / "edge/systemd/edge-upgrade").chmod(0o755)
        bundle = self.folder / "bundle.tar"
        script = (
            f"say() {{ :; }}; here={SYSTEMD}; eval \"$(sed -n '/^seal()/,/^}}/p' {SYSTEMD}/make-bundle.sh)\";"
            f" seal {content} {bundle} '{self.key if signed else ''}'"
        )
        ok("bash", "-euc", script)
        ok("rm", "-r", content)
        return bundle


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


@pytest.fixture
def bundle(publisher: Publisher) -> Path:
    return publisher.bundle()


def rewritten(bundle: Path, change: Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None]) -> Path:
    """Return the bundle with changed members, given by path."""
    with tarfile.open(bundle) as archive:
        members = {
            member.name.removeprefix("./"): (member, read.read() if (read := archive.extractfile(member)) else b"")
            for member in archive
        }
    change(members)
    with tarfile.open(bundle, "w") as archive:
        for member, content in members.values():
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return bundle


def put(path: str, content: bytes) -> Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None]:
    return lambda members: members.update({path: (tarfile.TarInfo(f"./{path}"), content)})


def test_a_signed_bundle_is_unpacked_as_it_was_made(publisher: Publisher, bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    said = ok(VERIFY, "--publisher", publisher.public, "--unpack", folder, bundle)
    key = publisher.public.read_text().split()[5]
    assert said == f"edge 0.1.0 of 2026-11-23T08:00:00Z, {len(FILES) + 3} files, signed by {key}\n"
    for name, text in FILES.items():
        assert (folder / name).read_text() == text
    assert os.access(folder / "edge/systemd/edge-upgrade", os.X_OK)
    assert not os.access(folder / "edge/pyproject.toml", os.X_OK)


def test_a_bundle_of_somebody_else_is_refused(publisher: Publisher, tmp_path: Path) -> None:
    """The key inside a bundle is ignored if a publisher is known."""
    (tmp_path / "other").mkdir()
    theirs = Publisher(tmp_path / "other").bundle()
    for flags in ([], ["--first"], ["--first", "--unsigned", "--older"]):
        said = refused(VERIFY, "--publisher", publisher.public, *flags, theirs)
        assert "is signed by the key" in said
        assert "only" in said


def test_a_signature_that_names_the_right_key_does_not_help(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    thief = Publisher(tmp_path / "other")
    lines = thief.public.read_text().splitlines()
    own, theirs = (base64.b64decode(file.read_text().splitlines()[1]) for file in (publisher.public, thief.public))
    thief.public.write_text(f"{lines[0]}\n{base64.b64encode(theirs[:2] + own[2:10] + theirs[10:]).decode()}\n")
    assert "was changed after" in refused(VERIFY, "--publisher", publisher.public, thief.bundle())


@pytest.mark.parametrize("path", sorted([*FILES, "release", "target", "publisher.pub"]))
def test_a_changed_file_is_named(publisher: Publisher, bundle: Path, path: str) -> None:
    rewritten(bundle, put(path, b"version 9\nmade 9999\n"))
    said = refused(VERIFY, "--publisher", publisher.public, bundle)
    assert f"{path} in bundle.tar is damaged" in said


def test_a_file_that_was_changed_is_not_left_in_the_folder_as_accepted(
    publisher: Publisher, bundle: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    rewritten(bundle, put("edge/systemd/edge-upgrade", b"#!/bin/sh\necho stolen\n"))
    refused(VERIFY, "--publisher", publisher.public, "--unpack", folder, bundle)
    assert not (folder / "SHA256SUMS").exists()


def test_a_changed_checksum_list_is_refused(publisher: Publisher, bundle: Path) -> None:
    def add_a_line(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
        member, sums = members["SHA256SUMS"]
        members["SHA256SUMS"] = (member, sums + b"0" * 64 + b"  ./more\n")

    rewritten(bundle, add_a_line)
    assert "bundle.tar was changed after" in refused(VERIFY, "--publisher", publisher.public, bundle)


def test_the_comment_of_a_signature_is_signed_too(publisher: Publisher, bundle: Path) -> None:
    def change(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
        member, text = members["SHA256SUMS.minisig"]
        members["SHA256SUMS.minisig"] = (member, text.replace(b"timestamp:", b"timestamp:9"))

    rewritten(bundle, change)
    assert "was changed after" in refused(VERIFY, "--publisher", publisher.public, bundle)


@pytest.mark.parametrize(
    "text", [b"", b"\n\n\n\n", b"untrusted comment: x\nAAAA\ntrusted comment: \nAAAA\n", b"\xff" * 99]
)
def test_a_signature_that_is_none_is_refused(publisher: Publisher, bundle: Path, text: bytes) -> None:
    rewritten(bundle, put("SHA256SUMS.minisig", text))
    assert "is not a signature of minisign" in refused(VERIFY, "--publisher", publisher.public, bundle)


@pytest.mark.parametrize("flags", [[], ["--first"], ["--unsigned"]])
def test_an_unsigned_bundle_is_refused_where_a_publisher_is_known(publisher: Publisher, flags: list[str]) -> None:
    bundle = publisher.bundle(signed=False)
    said = refused(VERIFY, "--publisher", publisher.public, *flags, bundle)
    assert "is not signed, and this site accepts only what the key" in said


def test_a_key_that_cannot_be_read_is_not_taken_for_none(publisher: Publisher, tmp_path: Path) -> None:
    said = refused(VERIFY, "--publisher", tmp_path, "--first", "--unsigned", publisher.bundle(signed=False))
    assert f"{tmp_path}, the key of the publisher, cannot be read" in said
    assert "does not exist" in refused(VERIFY, "--publisher", tmp_path / "none", "--first", publisher.bundle())
    (tmp_path / "empty").write_text("")
    assert "is not a public key of minisign" in refused(VERIFY, "--publisher", tmp_path / "empty", publisher.bundle())


def odd_name(name: str) -> Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None]:
    return lambda members: members.update({name: (tarfile.TarInfo(name), b"x")})


def link(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    member = tarfile.TarInfo("./edge/link")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    members["edge/link"] = (member, b"")


def twice(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    members["again"] = (tarfile.TarInfo("edge/pyproject.toml"), b"")


@pytest.mark.parametrize(
    "change",
    [odd_name("../outside"), odd_name("/outside"), odd_name("./a/../../outside"), odd_name("./a\nb"), link, twice],
)
def test_what_leads_out_of_the_folder_is_refused(
    publisher: Publisher,
    bundle: Path,
    tmp_path: Path,
    change: Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None],
) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    rewritten(bundle, change)
    assert "which no bundle has" in refused(VERIFY, "--publisher", publisher.public, "--unpack", folder, bundle)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ["edge/more.py", "wheels/more.whl"])
def test_a_file_that_is_not_listed_is_refused(publisher: Publisher, bundle: Path, path: str) -> None:
    rewritten(bundle, put(path, b"x"))
    assert path in refused(VERIFY, "--publisher", publisher.public, bundle)


def test_a_file_that_is_missing_is_named(publisher: Publisher, bundle: Path) -> None:
    rewritten(bundle, lambda members: members.pop("wheels/blinker-1.9.0-py3-none-any.whl") and None)
    assert "blinker" in refused(VERIFY, "--publisher", publisher.public, bundle)


@pytest.mark.parametrize("content", [b"", b"text", b"\x1f\x8b" + b"x" * 600])
def test_what_is_no_bundle_is_refused(publisher: Publisher, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert refused(VERIFY, "--publisher", publisher.public, file)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    ok(SIGN, publisher.key, file)
    assert refused(VERIFY, "--publisher", publisher.public, "--unpack", folder, file)


def test_one_of_another_system_is_not_unpacked(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "unpacked").mkdir()
    bundle = publisher.bundle({"target": "debian11 mips\n"})
    said = refused(VERIFY, "--publisher", publisher.public, "--unpack", tmp_path / "unpacked", bundle)
    assert "is for debian11 mips, and this is" in said


@pytest.mark.parametrize(
    ("installed", "is_refused"),
    [
        ("version 0.1.0\nmade 2026-11-23T08:00:01Z\n", True),
        ("version 0.1.1\nmade 2026-01-01T00:00:00Z\n", True),
        ("version 0.10.0\nmade 2026-01-01T00:00:00Z\n", True),
        ("version 0.1.0\nmade 2026-11-23T08:00:00Z\n", False),
        ("version 0.0.9\nmade 2027-01-01T00:00:00Z\n", False),
    ],
)
def test_an_older_release_is_refused_unless_it_is_meant(
    publisher: Publisher, bundle: Path, tmp_path: Path, installed: str, is_refused: bool
) -> None:
    (tmp_path / "release").write_text(installed)
    arguments = [VERIFY, "--publisher", publisher.public, "--installed", tmp_path / "release"]
    if is_refused:
        assert "To install it anyway: --older" in refused(*arguments, bundle)
    else:
        ok(*arguments, bundle)
    ok(*arguments, "--older", bundle)


def test_a_package_is_checked_before_apt_runs_it(publisher: Publisher, tmp_path: Path) -> None:
    package = tmp_path / "edge_0.1.0~debian12_amd64.deb"
    package.write_bytes(b"!<arch>\n" * 300_000)
    assert "is not signed, or its signature was not copied" in refused(VERIFY, "--publisher", publisher.public, package)
    ok(SIGN, publisher.key, package)
    assert "is signed by" in ok(VERIFY, "--publisher", publisher.public, package)
    package.write_bytes(b"!<arch>\n" * 300_000 + b"more")
    assert "was changed after" in refused(VERIFY, "--publisher", publisher.public, package)


def test_files_of_the_working_directory_are_ignored(publisher: Publisher, bundle: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("argparse", "base64", "hashlib", "tarfile", "subprocess", "sitecustomize", "openssl"):
        (hostile / f"{name}.py").write_text(f"open({str(hostile / 'imported')!r}, 'a')")
    (hostile / "openssl").write_text(f"#!/bin/sh\necho Verified Successfully; touch {hostile}/imported")
    (hostile / "openssl").chmod(0o755)
    rewritten(bundle, put("SHA256SUMS", b""))
    environment = {**os.environ, "PATH": f"{hostile}:{os.environ['PATH']}", "PYTHONPATH": str(hostile)}
    arguments = [VERIFY, "--publisher", publisher.public, bundle]
    done = subprocess.run(
        [str(word) for word in arguments], capture_output=True, text=True, cwd=hostile, env=environment
    )
    assert done.returncode == 1
    assert "was changed after" in done.stderr
    assert not (hostile / "imported").exists()


def test_a_key_is_never_replaced_and_readable_by_its_owner_alone(publisher: Publisher) -> None:
    assert publisher.key.stat().st_mode & 0o777 == 0o600
    before = publisher.key.read_bytes()
    done = run(SIGN, "--new-key", publisher.key)
    assert done.returncode == 1
    assert "a key is never replaced" in done.stderr
    assert publisher.key.read_bytes() == before


@pytest.mark.minisign
def test_minisign_accepts_what_is_signed_here(publisher: Publisher, bundle: Path) -> None:
    ok(SIGN, publisher.key, bundle)
    assert "verified" in ok("minisign", "-V", "-H", "-p", publisher.public, "-m", bundle)


@pytest.mark.minisign
def test_what_minisign_signed_is_accepted_here(tmp_path: Path) -> None:
    public, key, package = (tmp_path / name for name in ("minisign.pub", "minisign.key", "package.deb"))
    package.write_bytes(b"!<arch>\n")
    ok("minisign", "-G", "-W", "-p", public, "-s", key)
    ok("minisign", "-S", "-s", key, "-m", package)
    assert "is signed by" in ok(VERIFY, "--publisher", public, package)
    ok("minisign", "-S", "-l", "-s", key, "-m", package)
    assert "the old format of minisign" in refused(VERIFY, "--publisher", public, package)


class TestInstaller:
    """How install.sh verifies and unpacks a bundle."""

    def check(self, bundle: Path, publisher: Path | str = "", *, lacks: str = "") -> str:
        """Run the checks. The output ends with the key that would be pinned."""
        settings, folder = bundle.parent / "settings", bundle.parent / "scratch"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        settings.mkdir(exist_ok=True)
        names = f"here={SYSTEMD} settings={settings} scratch={folder} bundle={bundle} publisher={publisher}"
        script = (
            f'fail() {{ echo "install.sh: $*"; exit 1; }}; {names};'
            f" command() {{ [[ $2 != '{lacks}' ]] && builtin command \"$@\"; }};"
            f" eval \"$(sed -n '/^unpack_bundle()/,/^}}/p; /^compare_checksums()/,/^}}/p' {SYSTEMD}/install.sh)\";"
            ' unpack_bundle; echo "pins ${publisher##*/}"'
        )
        done = run("bash", "-euc", script)
        return done.stdout + done.stderr

    @pytest.fixture
    def unpacked(self, bundle: Path, tmp_path: Path) -> Path:
        folder = tmp_path / "unpacked"
        folder.mkdir()
        ok("tar", "-xf", bundle, "-C", folder)
        return folder

    def packed(self, folder: Path) -> Path:
        bundle = folder.with_name("changed.tar")
        ok("tar", "-cf", bundle, "-C", folder, ".")
        return bundle

    @pytest.mark.parametrize("lacks", ["", "openssl"])
    def test_a_file_without_a_checksum_is_refused(self, unpacked: Path, lacks: str) -> None:
        assert "pins" in self.check(self.packed(unpacked), lacks=lacks)
        (unpacked / "wheels" / "SHA256SUMS.minisig").write_text("x")
        said = self.check(self.packed(unpacked), lacks=lacks)
        assert "nothing was changed" in said
        assert "pins" not in said

    @pytest.mark.parametrize("lacks", ["", "openssl"])
    @pytest.mark.parametrize("kind", ["symbolic", "hard"])
    def test_a_link_is_refused(self, unpacked: Path, tmp_path: Path, lacks: str, kind: str) -> None:
        """Regression: links were not compared with the checksums, so code of the link's target ran as root."""
        foreign = tmp_path / "foreign"
        foreign.write_text("foreign code")
        link = unpacked / "edge/added.py"
        if kind == "symbolic":
            link.symlink_to(foreign)
        else:
            link.hardlink_to(unpacked / "release")
        said = self.check(self.packed(unpacked), lacks=lacks)
        assert "which no bundle has" in said
        assert "nothing was changed" in said
        assert "pins" not in said

    def test_the_key_that_is_given_decides(self, publisher: Publisher, bundle: Path, tmp_path: Path) -> None:
        assert "pins publisher.key.pub" in self.check(bundle, publisher.public)
        (tmp_path / "other").mkdir()
        said = self.check(bundle, Publisher(tmp_path / "other").public)
        assert "is signed by the key" in said
        assert "nothing was changed" in said
        assert "pins" not in said

    def test_without_one_that_of_the_bundle_is_kept_with_a_warning(self, bundle: Path) -> None:
        said = self.check(bundle)
        assert "WARNING: no publisher is known here" in said
        assert "pins publisher.pub" in said

    def test_a_bundle_without_a_signature_is_installed_with_a_warning(self, unpacked: Path) -> None:
        for name in ("SHA256SUMS.minisig", "publisher.pub"):
            (unpacked / name).unlink()
        sums = unpacked / "SHA256SUMS"
        lines = [line for line in sums.read_text().splitlines(keepends=True) if "publisher.pub" not in line]
        sums.write_text("".join(lines))
        said = self.check(self.packed(unpacked))
        assert "is not signed: a change on its way here cannot be detected" in said
        assert "pins \n" in said

    @pytest.mark.parametrize("pinned", [b"", b"an older key"])
    def test_the_key_is_put_where_upgrades_look_for_it(
        self, publisher: Publisher, tmp_path: Path, pinned: bytes
    ) -> None:
        settings = tmp_path / "settings"
        settings.mkdir()
        for name in ("edge.toml", "https.conf", "mqtt.password", "signing.key"):
            (settings / name).write_text("x")
        if pinned:
            (settings / "publisher.pub").write_bytes(pinned)
        script = (
            'install() { printf \'%s \' "$@"; echo; [[ $1 = -d ]] || cp "${@: -2}"; }; chown() { :; };'
            f" here={SYSTEMD} settings={settings} publisher={publisher.public} https='';"
            f" eval \"$(sed -n '/^write_settings()/,/^}}/p' {SYSTEMD}/install.sh)\"; write_settings"
        )
        assert f"-o root -g root -m 0644 {publisher.public}" in ok("bash", "-euc", script)
        assert (settings / "publisher.pub").read_bytes() == publisher.public.read_bytes()

    @pytest.mark.parametrize("tool", ["python3", "openssl"])
    def test_what_a_bare_debian_lacks_comes_with_the_bundle(
        self, publisher: Publisher, bundle: Path, tool: str
    ) -> None:
        assert f"is not verified because {tool} is not installed yet" in self.check(bundle, lacks=tool)
        said = self.check(bundle, publisher.public, lacks=tool)
        assert f"{tool}, which verifies the signature of {bundle}, is not installed, and nothing was changed" in said
        assert "pins" not in said


class TestUpgrade:
    """edge-upgrade on a simulated computer with release 3; bundles contain release 4."""

    @pytest.fixture(autouse=True)
    def _prepare(self, computer: Computer, tmp_path: Path) -> None:
        etc = computer._folder / "etc"
        for name in ("passwd", "group", "os-release", "ssl", "ld.so.cache", "alternatives", "dpkg"):
            if Path("/etc", name).exists():
                ok("cp", "-aL", f"/etc/{name}", etc)
        (etc / "edge").mkdir()
        self.computer, self.etc, self.tmp_path = computer, etc, tmp_path
        (tmp_path / "publisher").mkdir()
        self.publisher = Publisher(tmp_path / "publisher")

    def bundle(self, publisher: Publisher | None = None, **options: object) -> Path:
        """Return a bundle of a checkout with the systemd folder of release 4."""
        self.computer._make_release("4", "var/lib/checkout")
        systemd = self.computer._folder / "var/lib/checkout/systemd"
        files = {f"edge/systemd/{file.name}": file.read_text() for file in systemd.iterdir()}
        return (publisher or self.publisher).bundle(files, **options)  # type: ignore[arg-type]

    def upgrade(self, bundle: Path, *flags: str, broken: bool = False, script: str = f"{SYSTEMD}/edge-upgrade") -> str:
        (self.computer._folder / "var/lib/bundle.tar").write_bytes(bundle.read_bytes())
        return self.edge_upgrade(*flags, "/var/lib/bundle.tar", broken=broken, script=script)

    def edge_upgrade(self, *arguments: str, broken: bool = False, script: str = f"{SYSTEMD}/edge-upgrade") -> str:
        too_slow = self.computer._folder / "var/lib/too-slow"
        too_slow.unlink(missing_ok=True)
        if broken:
            too_slow.touch()
        return run_on(self.computer._folder, f"{script} {' '.join(arguments)}", ("etc", *FOLDERS))

    def know(self, publisher: Publisher) -> None:
        (self.etc / "edge/publisher.pub").write_bytes(publisher.public.read_bytes())

    def test_a_bundle_of_the_known_publisher_takes_over(self) -> None:
        self.know(self.publisher)
        said = self.upgrade(self.bundle())
        assert "Upgraded to" in said, said
        assert self.computer.state() == NEW
        [installed] = (self.computer._folder / "opt/edge/releases").glob("*/release")
        assert "made 2026-11-23" in installed.read_text()

    def test_an_older_one_does_not_unless_it_is_meant(self) -> None:
        self.know(self.publisher)
        assert "Upgraded to" in self.upgrade(self.bundle())
        older = self.bundle(made="2026-11-22T08:00:00Z")
        said = self.upgrade(older)
        assert "older than the installed release" in said
        assert "nothing was changed" in said
        assert "Upgraded to" in self.upgrade(older, "--older")

    def test_the_first_one_brings_the_key_and_no_other_is_accepted_later(self, tmp_path: Path) -> None:
        bundle = self.bundle()
        said = self.upgrade(bundle, "--check")
        assert "WARNING: no publisher is known here" in said
        assert not (self.etc / "edge/publisher.pub").exists()
        said = self.upgrade(bundle)
        assert "WARNING: no publisher is known here" in said
        pinned = self.etc / "edge/publisher.pub"
        assert pinned.read_bytes() == self.publisher.public.read_bytes()
        assert pinned.stat().st_mode & 0o777 == 0o644
        (tmp_path / "other").mkdir()
        said = self.upgrade(self.bundle(Publisher(tmp_path / "other")))
        assert "is signed by the key" in said
        assert pinned.read_bytes() == self.publisher.public.read_bytes()

    def test_the_key_of_a_first_one_that_fails_is_not_kept(self) -> None:
        assert "The previous release runs again" in self.upgrade(self.bundle(), broken=True)
        assert self.computer.state() == OLD
        assert not (self.etc / "edge/publisher.pub").exists()

    def test_a_release_that_did_not_install_the_verifier_lends_its_own(self) -> None:
        """Earlier releases have no /usr/local/sbin/edge-verify next to edge-upgrade."""
        self.know(self.publisher)
        sbin = self.computer._folder / "usr/local/sbin"
        (sbin / "edge-verify").unlink(missing_ok=True)
        (sbin / "edge-upgrade").write_bytes((SYSTEMD / "edge-upgrade").read_bytes())
        (sbin / "edge-upgrade").chmod(0o755)
        lent = self.computer._folder / "opt/edge/releases/old/systemd/edge-verify"
        lent.write_bytes(VERIFY.read_bytes())
        lent.chmod(0o755)
        package = self.computer._folder / "opt/edge/releases/old/lib/python3.11/site-packages/edge"
        shutil.copytree(SYSTEMD.parent / "edge/operations/root", package / "operations/root")
        (self.tmp_path / "other").mkdir()
        said = self.upgrade(self.bundle(Publisher(self.tmp_path / "other")), script="/usr/local/sbin/edge-upgrade")
        assert "is signed by the key" in said
        assert self.computer.state() == OLD
        said = self.upgrade(self.bundle(), script="/usr/local/sbin/edge-upgrade")
        assert "Upgraded to" in said, said

    @pytest.mark.parametrize("is_known", [True, False])
    def test_an_unsigned_one_is_refused_before_anything_runs(self, is_known: bool) -> None:
        if is_known:
            self.know(self.publisher)
        said = self.upgrade(self.bundle(signed=False))
        assert "is not signed" in said
        assert is_known or "edge/systemd/install.sh --offline" in said
        assert "nothing was changed" in said
        assert "Backup" not in said
        assert self.computer.state() == OLD

    def test_a_changed_one_is_refused_before_anything_runs(self) -> None:
        self.know(self.publisher)
        said = self.upgrade(rewritten(self.bundle(), put("edge/systemd/edge-https", b"stolen")))
        assert "edge/systemd/edge-https in bundle.tar is damaged" in said
        assert "Backup" not in said
        assert self.computer.state() == OLD

    def test_a_folder_is_refused_where_a_publisher_is_known_unless_it_is_meant(self) -> None:
        self.know(self.publisher)
        self.bundle()
        assert "is a folder, which has no signature" in self.edge_upgrade("/var/lib/checkout")
        assert self.computer.state() == OLD
        assert "Upgraded to" in self.edge_upgrade("--unsigned", "/var/lib/checkout")
