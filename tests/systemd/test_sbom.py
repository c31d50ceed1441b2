"""The bill of materials of a bundle is valid CycloneDX 1.5 and lists exactly the files of the bundle."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"
WEB = SYSTEMD.parent / "web"
WHEELS = {"Flask-3.1.3-py3-none-any.whl": b"a wheel", "ppf_datamatrix-0.2-py3-none-any.whl": b"another"}
PACKAGES = """Package: python3
Version: 3.11.2-1+b1
Architecture: amd64
Description: long
 with more lines
Filename: ./python3.deb
Size: 9
SHA256: {digest}

Package: caddy
Version: 1:2.6.2-5
Architecture: amd64
SHA256: {digest}

"""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return the bundle folder at the point where make-bundle.sh calls make-sbom."""
    for name in ("wheels", "packages", "edge/web/static"):
        (tmp_path / name).mkdir(parents=True)
    for name, content in WHEELS.items():
        (tmp_path / "wheels" / name).write_bytes(content)
    flask, datamatrix = map(digest_of, WHEELS.values())
    (tmp_path / "requirements.txt").write_text(
        f"# Written by .ci/lock\nflask==3.1.3 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{flask}\n"
        f"ppf-datamatrix==0.2 ; python_version < '4' \\\n    --hash=sha256:{datamatrix}\n"
        f"uvloop==9 \\\n    --hash=sha256:{'1' * 64}\n"
    )
    (tmp_path / "packages" / "Packages").write_text(PACKAGES.format(digest=digest_of(b"deb")))
    (tmp_path / "edge/web/static/vendor").symlink_to(WEB / "static" / "vendor")
    (tmp_path / "release").write_text("version 0.1.0\nmade 2026-11-23T08:00:00Z\ncommit abc\n")
    (tmp_path / "target").write_text("debian12 amd64\n")
    return tmp_path


def bill(bundle: Path) -> dict[str, Any]:
    done = subprocess.run([SYSTEMD / "make-sbom", bundle], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_it_has_what_the_format_requires(bundle: Path) -> None:
    document = bill(bundle)
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", document["serialNumber"]
    )
    metadata = document["metadata"]
    assert metadata["timestamp"] == "2026-11-23T08:00:00Z"
    assert (metadata["component"]["type"], metadata["component"]["name"]) == ("application", "edge")
    assert metadata["component"]["version"] == "0.1.0"
    for component in document["components"]:
        assert component["type"] == "library"
        assert component["name"]
        assert component["version"]
        assert re.fullmatch(r"pkg:(pypi|npm|deb/debian)/[^\s@]+@[^\s@]+", component["purl"])
        assert all(re.fullmatch("[0-9a-f]{64}", one["content"]) for one in component.get("hashes", []))
    refs = [component["bom-ref"] for component in document["components"]]
    assert len(set(refs)) == len(refs)
    assert document["dependencies"] == [{"ref": metadata["component"]["bom-ref"], "dependsOn": refs}]


def test_it_lists_the_files_of_the_bundle_and_no_others(bundle: Path) -> None:
    components = {component["purl"]: component for component in bill(bundle)["components"]}
    flask, datamatrix = map(digest_of, WHEELS.values())
    digests = {purl: [one["content"] for one in component.get("hashes", [])] for purl, component in components.items()}
    assert digests.pop("pkg:npm/zxing-wasm@3.1.4") == []
    assert digests == {
        "pkg:pypi/flask@3.1.3": [flask],
        "pkg:pypi/ppf-datamatrix@0.2": [datamatrix],
        "pkg:deb/debian/python3@3.11.2-1%2Bb1?arch=amd64&distro=debian-12": [digest_of(b"deb")],
        "pkg:deb/debian/caddy@1%3A2.6.2-5?arch=amd64&distro=debian-12": [digest_of(b"deb")],
    }


def test_a_wheel_that_the_lock_file_does_not_know_is_named(bundle: Path) -> None:
    (bundle / "wheels" / "evil-1-py3-none-any.whl").write_bytes(b"x")
    done = subprocess.run([SYSTEMD / "make-sbom", bundle], capture_output=True, text=True)
    assert done.returncode == 1
    assert "evil-1-py3-none-any.whl is not in requirements.txt" in done.stderr


def test_the_same_bundle_has_the_same_bill(bundle: Path) -> None:
    first = bill(bundle)
    assert bill(bundle) == first
    (bundle / "release").write_text("version 0.1.0\nmade 2026-11-24T08:00:00Z\ncommit abd\n")
    assert bill(bundle)["serialNumber"] != first["serialNumber"]


def test_the_lock_file_of_this_release_can_be_read(bundle: Path) -> None:
    """Every entry gives a component for each of its wheels."""
    text = (SYSTEMD / "requirements.txt").read_text("utf-8")
    (bundle / "requirements.txt").write_text(text)
    for wheel in (bundle / "wheels").iterdir():
        wheel.unlink()
    script = (
        "import runpy, sys, pathlib; found = runpy.run_path(sys.argv[1])['locked_versions'](pathlib.Path(sys.argv[2])"
        ".read_text()); print(len(found), len(set(found.values())))"
    )
    done = subprocess.run(
        ["python3", "-I", "-c", script, SYSTEMD / "make-sbom", bundle / "requirements.txt"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    files, versions = map(int, done.stdout.split())
    assert files == len(set(re.findall("sha256:([0-9a-f]{64})", text)))
    assert versions == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
