"""Who is acting: created where a request or command comes in, and an argument of every function that writes."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

THE_BOX = 0  # in place of an organization's id, for what concerns the box and no organization


class ActorKind(StrEnum):
    PERSON = "person"
    API_KEY = "api_key"
    SHELL = "shell"
    DEVICE = "device"  # a shared handheld on which nobody is signed in yet
    READER = "reader"
    HUB = "hub"
    SERVICE = "service"


class Actor(NamedTuple):
    """`name` is what the actor is called at the time; `device_id` the shared device on which a person acts.

    `sender_id` and `sender_name`: who is signed in there now and uploads what this person did earlier. The audit names
    the sender, since only the sender's sign-in is proven.
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
    """A person whose earlier work on a shared device is uploaded by somebody else, who is signed in there now."""
    return sender._replace(id=str(person_id), name=name, sender_id=sender.id, sender_name=sender.name)


def api_key(organization_id: int, key_id: str, name: str) -> Actor:
    return Actor(organization_id, ActorKind.API_KEY, key_id, name)


def shell(organization_id: int = THE_BOX, user: str = "") -> Actor:
    """`user` is the account of the operating system."""
    return Actor(organization_id, ActorKind.SHELL, name=user)


def device(organization_id: int, device_id: int, name: str) -> Actor:
    return Actor(organization_id, ActorKind.DEVICE, str(device_id), name)


def service(organization_id: int = THE_BOX) -> Actor:
    """The running service itself, for example when retention deletes."""
    return Actor(organization_id, ActorKind.SERVICE)
