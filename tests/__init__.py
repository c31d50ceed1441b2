"""Tests, drills and benchmarks change records without the service: connect the receivers of signals for them."""

from edge import listeners

listeners.connect()
