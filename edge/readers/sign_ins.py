"""Sign-ins at the broker as its log reports them: who is signed in, and which addresses are refused."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.rate_limits import is_loopback
from edge.readers.broker_accounts import BrokerAccountRow
from edge.texts import N_, Filled, fill

RECENT = clock.HOUR
SILENT = 2 * 60 * clock.SECOND  # a reader that is set up sends its first message meanwhile
SILENT_LATER = clock.DAY  # one that had messages before may see no tag for hours
FEWEST = 3  # refusals of an address, and clients with edge's account, that are reported
_MOST = 200  # addresses and connections

_OPENED = re.compile(r"New connection from (.+) on port (\d+)")
_SIGNED_IN = re.compile(r"New client connected from (\S+) as (\S+) \(")
_ENDED = re.compile(r"[Cc]lient (\S+)(?: \[(\S+:\d+)\])?[ ,.:]")
_TAKEN_OVER = re.compile(r"Client (\S+) already connected, closing old connection")
_REFUSED = "not authori"
_PROBE = "probe"  # the client of `edge doctor` that has no account on purpose


class SignIn(NamedTuple):
    """`is_clear`: from another computer, on a port without TLS. `since`: the first sign-in after the last message."""

    address: str
    at: int
    is_clear: bool = False
    since: int = 0
    is_connected: bool = True


class Refused(NamedTuple):
    """Refused sign-ins of one address."""

    address: str
    times: int
    at: int  # of the last
    account: str = ""  # of the last, as far as the broker names it
    is_version: bool = False  # for its version of MQTT


class SignIns:
    """Follows the lines of mosquitto's log. Before version 2.0.21 it names the account only if a sign-in succeeds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tls_port = 0  # of the broker; 0: none
        self._opened: OrderedDict[str, int] = OrderedDict()  # connections without a sign-in so far, with its port
        self._by_account: dict[str, SignIn] = {}
        self._others: dict[str, deque[SignIn]] = {}  # by account of edge: sign-ins
        self._taken_over: dict[str, deque[int]] = {}  # by account of edge: when another client ended its connection
        self._refused: OrderedDict[str, Refused] = OrderedDict()
        self.unheard: list[Filled] = []  # see `unheard`

    def note(self, line: str, own: Sequence[str], at: int) -> None:
        """Read one line of the log. `own`: the accounts of edge."""
        with self._lock:
            if match := _OPENED.search(line):
                self._opened[match[1]] = int(match[2])
                if len(self._opened) > _MOST:
                    self._opened.popitem(last=False)
            elif match := _SIGNED_IN.search(line):
                host, port = _host(match[1]), self._opened.get(match[1], self.tls_port)
                self._forget(match[1])
                is_clear = port != self.tls_port and not is_loopback(f"//{host}" if ":" not in host else f"//[{host}]")
                self._sign_in(match[2], SignIn(host, at, is_clear), own)
            elif match := _TAKEN_OVER.search(line):
                if match[1] in own:
                    self._taken_over.setdefault(match[1], deque(maxlen=FEWEST)).append(at)
            elif (match := _ENDED.search(line)) and (match[1] == "<unknown>" or _REFUSED in line):
                address = self._forget(match[2])
                if _REFUSED in line and address and match[1] != _PROBE:
                    self._refuse(_host(address), at, match[1])
            elif match and (row := self._by_account.get(match[1])):
                self._by_account[match[1]] = row._replace(is_connected=False)

    def refuse(self, address: str, at: int) -> None:
        """Note a refusal of the embedded broker, which has no passwords: for the version of MQTT."""
        with self._lock:
            self._refuse(address, at, is_version=True)

    def of(self, account: str) -> SignIn | None:
        """Return the last sign-in of an account."""
        return self._by_account.get(account)

    def silent_since(self, account: str, received_at: int | None) -> SignIn | None:
        """Return the last sign-in of an account that has had no message since then, or None.

        An account that had messages before must be connected still: else it may just be switched off.
        """
        with self._lock:
            row = self._by_account.get(account)
            if row and received_at and received_at >= row.since:
                row = self._by_account[account] = row._replace(since=row.at)
            is_silent = row and (received_at is None or (row.is_connected and received_at < row.since))
            return row if is_silent else None

    def saved(self) -> list[tuple[str, SignIn]]:
        """Return the sign-ins of connected accounts, to be kept over a restart: they do not sign in again then."""
        with self._lock:
            return [(account, row) for account, row in self._by_account.items() if row.is_connected]

    def restore(self, rows: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Take over the result of `saved` from before a restart."""
        with self._lock:
            self._by_account = {account: SignIn(*row) for account, row in rows}

    def in_clear(self) -> list[str]:
        """Return the accounts whose last sign-in was without encryption."""
        with self._lock:
            return sorted(account for account, row in self._by_account.items() if row.is_clear)

    def refused(self, since: int) -> list[Refused]:
        """Return the addresses with repeated refusals, the newest first."""
        with self._lock:
            rows = list(reversed(self._refused.values()))
        return [row for row in rows if row.at >= since and row.times >= FEWEST]

    def others(self, since: int) -> list[str]:
        """Return the addresses from which other clients repeatedly sign in with the account of edge."""
        with self._lock:
            taken = [
                account for account, moments in self._taken_over.items() if sum(at >= since for at in moments) >= FEWEST
            ]
            return sorted({row.address for account in taken for row in self._others.get(account, ())})

    def _forget(self, connection: str | None) -> str:
        """Return the connection, or the oldest one that has not signed in: the broker answers them in order."""
        if not connection and self._opened:
            return self._opened.popitem(last=False)[0]
        self._opened.pop(connection or "", None)
        return connection or ""

    def _sign_in(self, account: str, row: SignIn, own: Sequence[str]) -> None:
        if account in own:
            self._others.setdefault(account, deque(maxlen=4 * FEWEST)).append(row)
        elif account in self._by_account or len(self._by_account) < 50 * _MOST:
            before = self._by_account.get(account)
            self._by_account[account] = row._replace(since=before.since if before else row.at)

    def _refuse(self, address: str, at: int, account: str = "", *, is_version: bool = False) -> None:
        was = self._refused.pop(address, None)
        times = was.times if was and at - was.at < RECENT else 0
        self._refused[address] = Refused(address, times + 1, at, account, is_version)
        if len(self._refused) > _MOST:
            self._refused.popitem(last=False)


def _host(connection: str) -> str:
    return connection.rpartition(":")[0].strip("[]")


SIGN_INS = SignIns()  # of the broker of this process


def unheard(accounts: Iterable[BrokerAccountRow], received: Mapping[int, int | None]) -> list[Filled]:
    """Return a text for each account that signs in, but has no messages since: it publishes on another topic.

    `received`: times of the last messages by reader; None: never.
    """
    texts = []
    for account in accounts:
        if account.reader_id not in received:
            continue
        received_at = received[account.reader_id]
        silent = SIGN_INS.silent_since(account.name, received_at)
        if silent and clock.now() - silent.since > (SILENT if received_at is None else SILENT_LATER):
            texts.append(fill(_DISCARDED, account=account.name, address=silent.address, topic=account.topic))
    return texts


def unencrypted(accounts: Sequence[str], tls_port: int) -> Filled:
    """Return the readers that sign in without encryption, with the remedy."""
    names = ", ".join([*accounts[:5], *(["…"] if len(accounts) > 5 else [])])
    if not tls_port:
        return fill(N_("without encryption, which the broker does not offer: %(names)s"), names=names)
    return fill(_IN_CLEAR, names=names, port=tls_port)


def refusals(rows: Sequence[Refused]) -> Filled:
    """Return which addresses the broker refuses."""
    addresses = ", ".join(f"{row.address} ({row.times})" for row in rows[:5])
    if all(row.is_version for row in rows):
        return fill(N_("the broker refuses %(addresses)s: set MQTT 3.1.1 on these devices"), addresses=addresses)
    return fill(
        N_("the broker refuses sign-ins from %(addresses)s: correct user name and password there"), addresses=addresses
    )


_IN_CLEAR = N_(
    "without encryption, so that others in the network can read the password and the reads: %(names)s. Set TLS with "
    "port %(port)s in the reader, or accept it: mqtt.accept_unencrypted"
)
_DISCARDED = N_(
    "%(account)s signs in from %(address)s, but nothing comes on the topic %(topic)s, and the broker discards messages "
    "on others: compare the topic in the reader"
)
