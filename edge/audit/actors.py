"""Actors: who performs a write. Created where a request or command enters, passed to every function that writes."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

THE_BOX = 0  # organization id of actions on the installation itself


class ActorKind(StrEnum):
    PERSON = "person"
    API_KEY = "api_key"
    SHELL = "shell"
    DEVICE = "device"  # a shared handheld with nobody signed in
    READER = "reader"
    HUB = "hub"
    SERVICE = "service"


class Actor(NamedTuple):
    """An actor, with `name` as it was at the time. `device_id` is the shared device that a person uses.

    `sender_id` and `sender_name` are set when somebody else, now signed in on that device, uploads the person's earlier
    work. The audit trail names the sender, since only the sender has proved who they are.
    """

    organization_id: int
    kind: ActorKind
    id: str = ""
    name: str = ""
    device_id: int | None = None
    device_name: str = ""
    sender_id: str = ""
    sender_name: str = ""

    @property
    def person_id(self) -> int | None:
        return int(self.id) if self.kind is ActorKind.PERSON else None


def person(
    organization_id: int, person_id: int, name: str, device_id: int | None = None, device_name: str = ""
) -> Actor:
    return Actor(organization_id, ActorKind.PERSON, str(person_id), name, device_id, device_name)


def on_behalf_of(sender: Actor, person_id: int, name: str) -> Actor:
    """Return an actor for a person whose earlier work on a shared device is uploaded by `sender`."""
    return sender._replace(id=str(person_id), name=name, sender_id=sender.id, sender_name=sender.name)


def api_key(organization_id: int, key_id: str, name: str) -> Actor:
    return Actor(organization_id, ActorKind.API_KEY, key_id, name)


def shell(organization_id: int = THE_BOX, user: str = "") -> Actor:
    """Return the actor of a shell command. `user` is the operating system account."""
    return Actor(organization_id, ActorKind.SHELL, name=user)


def device(organization_id: int, device_id: int, name: str) -> Actor:
    return Actor(organization_id, ActorKind.DEVICE, str(device_id), name)


def service(organization_id: int = THE_BOX) -> Actor:
    """Return the actor of the running service itself, for example when retention deletes data."""
    return Actor(organization_id, ActorKind.SERVICE)
