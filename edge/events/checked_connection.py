"""HTTP connection to a host that an administrator entered: its address is checked, see `edge.outbound`."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl

from edge.outbound import Network, connect

ANSWER_SECONDS = 20.0


class CheckedConnection(http.client.HTTPConnection):
    """A connection to the checked IP address; the host name is used for the certificate and the `Host` header."""

    def __init__(self, host: str, port: int, network: Network, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=ANSWER_SECONDS)
        self.default_port = 443 if tls else 80  # omitted from `Host`
        self._network = network
        self._encryption = tls
        self.is_cut = False

    def connect(self) -> None:
        self.sock = connect(self.host, self.port, self._network, is_encrypted=self._encryption is not None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(ANSWER_SECONDS)
        if self._encryption:
            encrypted = self._encryption.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock = encrypted  # lets `cut` end the connection during the handshake
            encrypted.do_handshake()

    def cut(self) -> None:
        """Shut the connection down at the deadline, so that a blocked read or write fails."""
        self.is_cut = True
        with contextlib.suppress(OSError):  # already closed
            if self.sock:
                socket.socket.shutdown(
                    self.sock, socket.SHUT_RDWR
                )  # the plain socket, since another thread is reading the TLS one
