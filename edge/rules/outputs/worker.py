"""The thread that switches outputs. It runs only while there are outputs.

It compares the state that follows from the alerts with the last command that the broker has acknowledged, and publishes
the difference. After a start and after a new connection it publishes the state of every output again. So what a crash
has left on is switched off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.errors import EdgeError
from edge.events.delivery import Outcome, Result
from edge.events.family import Destination
from edge.events.mqtt import OutputCommands
from edge.events.standby_thread import StandbyThread
from edge.rules.outputs import outputs
from edge.rules.outputs.forms import Command, Form
from edge.rules.outputs.outputs import LastCommand, entered_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 15.0)
CLEANING_SECONDS = 600.0
CONNECTION, LAST_COMMANDS = 0, -1  # in addition to the numbers of outputs


class State(NamedTuple):
    """What the broker has acknowledged. `until`: the second for which the timer of a device was set, 0 without one."""

    command: Command
    is_on: bool
    until: int


class OutputsWorker(StandbyThread):
    unexpected_seconds = fault_seconds = 5.0
    stop_seconds = 3.0

    def __init__(self, new_sender: Callable[[], OutputCommands]) -> None:
        """Prepare without a thread and without a connection. `wake` looks for new alerts; call it after the commit.

        At its end the thread switches off all outputs that are on, as far as the broker answers.
        """
        super().__init__("outputs", outputs.is_needed, self.work_once, self._end)
        self._new_sender = new_sender
        self._sender: OutputCommands | None = None
        self._connection = 0
        self._sent: dict[int, State] = {}  # acknowledged on this connection, by output
        self._failures: dict[int, int] = {}  # in sequence, by output
        self._retry_at: dict[int, float] = {}
        self._cleaned_at = 0.0
        self._topics: frozenset[str] = frozenset()

    def is_topic(self, topic: str) -> bool:
        """Return True for a topic of an output."""
        return topic in self._topics

    def _end(self) -> None:
        self._switch_off()
        if self._sender:
            self._sender.close()
        self._sender, self._connection = None, 0
        self._sent.clear()
        if not self.is_stopping:  # the last output was removed, and a reader may use its topic
            self._topics = frozenset()

    def work_once(self) -> float:
        """Publish the commands that are due. Returns the seconds until the next round."""
        rows, now = outputs.KIND.all(), clock.now()
        last_commands = outputs.last_commands()
        self._topics = frozenset([*(row.topic for row in rows), *(one.topic for one in last_commands)])
        self._sent = {no: sent for no, sent in self._sent.items() if any(row.no == no for row in rows)}
        if self._sender and not self._sender.is_up:
            self._sent.clear()
        rules = outputs.rules_of_outputs()
        wait = LOOK_SECONDS
        self._send_last_commands(last_commands)
        for row in rows:
            until = outputs.on_until(row, rules.get(row.no, []), now)
            self._switch(row, is_on=until > now, until=until)
            if until > now:
                wait = min(wait, (until - now) / SECOND)
        if time.monotonic() > self._cleaned_at:
            outputs.drop_old_commands(now)
            self._cleaned_at = time.monotonic() + CLEANING_SECONDS
        return wait

    def _switch(self, row: Destination, *, is_on: bool, until: int = 0) -> None:
        """Publish the state of an output if the broker has not acknowledged it.

        A further alert sets the timer of a Shelly again, which would switch itself off at the end of the first one.
        """
        command = entered_of(row).command
        state = State(command, is_on, until // SECOND if is_on and row.kind == Form.SHELLY else 0)
        if self._sent.get(row.no) == state:
            return
        if row.disabled_at is not None and not row.is_on and row.no not in self._sent:
            return  # not switched by edge
        payload = command.on_payload if is_on else command.off_payload
        self._sent.pop(row.no, None)  # unknown until it is acknowledged
        outcome = self._send(row.no, row.topic, payload) if payload else Outcome(Result.DELIVERED, "")
        if outcome is None:
            return
        if outcome.result is not Result.DELIVERED:
            if row.failing_since is None or row.last_error != outcome.detail:
                log.warning("Outputs: %s was not switched: %s", row.name, outcome.detail)
                outputs.record_failure(row.id, outcome.detail, clock.now())
            return
        self._sent[row.no] = state
        if row.is_on != is_on or row.failing_since is not None:
            outputs.record(row.id, clock.now(), is_on=is_on)

    def _send_last_commands(self, last_commands: Iterable[LastCommand]) -> None:
        """Publish last commands. Call before switching: another output may use the topic now."""
        for one in last_commands:
            outcome = self._send(LAST_COMMANDS, one.topic, one.payload)
            if outcome and outcome.result is Result.DELIVERED:
                outputs.drop_last_command(one)
                self._sent = {no: sent for no, sent in self._sent.items() if sent.command.topic != one.topic}

    def _send(self, key: int, topic: str, payload: str) -> Outcome | None:
        """Publish a command. Returns None during the pause after a failure.

        A refused command pauses its output only, a lost connection pauses all.
        """
        now = time.monotonic()
        if not self.is_stopping and now < max(self._retry_at.get(one, 0) for one in (key, CONNECTION)):
            return None
        if self._sender is None:
            self._sender = self._new_sender()
        outcome = self._sender.send(topic, payload)
        if outcome.result is Result.DELIVERED:
            self._failures.pop(key, None)
            self._failures.pop(CONNECTION, None)
        else:
            paused = key if outcome.result is Result.REFUSED else CONNECTION
            failures = self._failures.get(paused, 0)
            self._failures[paused] = failures + 1
            self._retry_at[paused] = now + RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
        if self._sender.connections != self._connection:  # devices may have missed commands in the meantime
            self._connection = self._sender.connections
            self._sent.clear()
            self.wake()
        return outcome

    def _switch_off(self) -> None:
        """Switch off at the end of the service. The next start looks at the alerts again."""
        try:
            for row in outputs.KIND.all():
                sent = self._sent.get(row.no)
                if sent.is_on if sent else row.is_on:
                    self._switch(row, is_on=False)
                if self._sender and not self._sender.is_up:
                    return
        except EdgeError as error:
            log.warning("Outputs: not switched off at the end: %s", error)
