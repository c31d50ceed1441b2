"""An installed box as a whole machine in qemu, with Debian's own kernel and a data disk that can lose its cache.

A container keeps the page cache of its host, so killing it loses nothing that a process has written. Here a power cut
loses the kernel's page cache, and the disk (see disk_process.py) a random part of all unflushed writes. The
processor is emulated, which makes everything about twenty times slower. Needs root, qemu-system-x86 and python3-fusepy.
"""

from __future__ import annotations

import http.client
import shutil
import subprocess
import time
from pathlib import Path

from tests.soak.box import Box
from tests.soak.disk import PYTHON

ROOT_MEGABYTES = 3000
DATA_MEGABYTES = 256
AGENT_PORT = 7000
BOOT_SECONDS = 600
ADDRESS = "10.0.2.15"  # of the guest in qemu's network
_KERNEL = (
    "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
    " linux-image-cloud-amd64 initramfs-tools"
)

_AGENT = """
import contextlib, http.server, socket, subprocess, threading

def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

def forward(port):
    with socket.create_server(("ADDRESS", port)) as server:
        while True:
            outside, _ = server.accept()
            try:
                inside = socket.create_connection(("127.0.0.1", port))
            except OSError:
                outside.close()
                continue
            for pair in ((outside, inside), (inside, outside)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

class Run(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        script = self.rfile.read(int(self.headers["Content-Length"]))
        done = subprocess.run(["bash", "-euc", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.send_response(500 if done.returncode else 200)
        self.send_header("Content-Length", str(len(done.stdout)))
        self.end_headers()
        self.wfile.write(done.stdout)

threading.Thread(target=forward, args=(HTTP_PORT,), daemon=True).start()
http.server.ThreadingHTTPServer(("0.0.0.0", 7000), Run).serve_forever()
"""
_AGENT_UNIT = f"""
[Service]
ExecStartPre=-ip link set eth0 up
ExecStartPre=-ip address add {ADDRESS}/24 dev eth0
ExecStart=/usr/bin/python3 /root/agent.py
[Install]
WantedBy=multi-user.target
"""
FSTAB = """/dev/vda / ext4 defaults 0 1
/dev/vdb /mnt/data ext4 defaults 0 2
/mnt/data/edge /var/lib/edge none bind,x-systemd.requires-mounts-for=/mnt/data 0 0
/mnt/data/mosquitto /var/lib/mosquitto none bind,x-systemd.requires-mounts-for=/mnt/data 0 0
"""
DATA = ("edge", "mosquitto")


class Emulated(Box):
    """Runs the system in `installed`, a box that is shut down. `http_port` of the guest's loopback and
    `open_ports` are reachable here at the same numbers."""

    def __init__(self, installed: Path, folder: Path, http_port: int, open_ports: tuple[int, ...]) -> None:
        super().__init__("qemu", folder)
        self._installed = installed
        self._http_port = http_port
        self._ports = (http_port, *open_ports)
        self._below = folder / "below"
        self._disk_process: subprocess.Popen[bytes] | None = None
        self._machine: subprocess.Popen[bytes] | None = None

    def build(self) -> None:
        """Make both disks from the installed box."""
        root, data = self._installed, self.folder / "data"
        shutil.rmtree(self.folder, ignore_errors=True)
        self._below.mkdir(parents=True)
        data.mkdir()
        for name in DATA:
            subprocess.run(["cp", "-a", str(root / "var/lib" / name), str(data)], check=True)
        (root / "mnt/data").mkdir(exist_ok=True)
        agent = _AGENT.replace("ADDRESS", ADDRESS).replace("HTTP_PORT", str(self._http_port))
        (root / "root/agent.py").write_text(agent)
        (root / "etc/fstab").write_text(FSTAB)
        units = root / "etc/systemd/system"
        (units / "agent.service").write_text(_AGENT_UNIT)
        subprocess.run(["systemctl", f"--root={root}", "-q", "enable", "agent.service"], check=True)
        _make_file_system(self.folder / "root.img", root, ROOT_MEGABYTES)
        program = [PYTHON, str(Path(__file__).with_name("disk_process.py")), str(self._below), str(DATA_MEGABYTES)]
        self._disk_process = subprocess.Popen(program)
        deadline = time.monotonic() + 60
        while not (self._below / "disk").exists():
            if time.monotonic() > deadline:
                raise RuntimeError("the disk cannot be shown by FUSE")
            time.sleep(0.1)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-d", str(data), str(self._below / "disk")], check=True)

    def boot(self) -> None:
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{port}-{ADDRESS}:{port}" for port in (AGENT_PORT, *self._ports))
        boot = self._installed / "boot"
        console = (self.folder / "console").open("ab")
        self._machine = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "512", "-smp", "1"),
                *("-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"),
                *("-kernel", str(next(boot.glob("vmlinuz-*"))), "-initrd", str(next(boot.glob("initrd.img-*")))),
                *("-append", "console=ttyS0 root=/dev/vda rw net.ifnames=0 edd=off mitigations=off quiet"),
                *("-drive", f"file={self.folder / 'root.img'},format=raw,if=virtio,cache=writeback"),
                *("-drive", f"file={self._below / 'disk'},format=raw,if=virtio,cache=writeback"),
                *("-netdev", f"user,id=net,restrict=on{forwards}", "-device", "virtio-net-pci,netdev=net"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
        self.is_enabled = True
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._is_up():
            if time.monotonic() > deadline or self._machine.poll() is not None:
                raise RuntimeError(f"the machine does not come up, see {self.folder / 'console'}")
            time.sleep(1)

    def run(self, script: str, *, check: bool = True) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", AGENT_PORT, timeout=600)
        try:
            connection.request("POST", "/", script.encode())
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        finally:
            connection.close()
        if check and answer.status != http.client.OK:
            raise RuntimeError(f"{script}\n{said}")
        return said

    def power_cut(self) -> None:
        """End the machine, then lose a random part of the writes that its disk has not flushed."""
        assert self._machine
        self._machine.kill()
        self._machine.wait()
        self.tell("cut")
        self.is_enabled = False

    def tell(self, command: str) -> None:
        """Send a command to the data disk."""
        with (self._below / "control").open("w") as control:
            control.write(command)

    def close(self) -> None:
        if self._machine:
            self._machine.kill()
            self._machine.wait()
        if self._disk_process:
            self._disk_process.terminate()
            self._disk_process.wait()

    def _is_up(self) -> bool:
        try:
            return "yes" in self.run(
                "systemctl is-active -q edge && systemctl is-active -q mosquitto && echo yes", check=False
            )
        except (OSError, http.client.HTTPException):
            return False


def add_kernel(box: Box) -> None:
    """Install Debian's kernel in a booted container."""
    box.run(_KERNEL)


def _make_file_system(file: Path, source: Path, megabytes: int) -> None:
    with file.open("wb") as image:
        image.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-d", str(source), str(file)], check=True)
