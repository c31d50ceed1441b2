"""The drill judges itself which missing reads a power cut explains."""

from __future__ import annotations

from tests.soak.installed_site import ages_at_cut


def test_the_moment_of_a_cut_is_the_last_acknowledgement() -> None:
    acknowledged = [*range(1000, 2000, 10), *range(9000, 9500, 10)]
    missing = {1: 1990, 2: 1950, 3: 1300, 4: 9400}
    assert ages_at_cut(missing, acknowledged, [2900]) == {1: 0, 2: 40, 3: 690, 4: None}
    assert ages_at_cut(missing, acknowledged, [9900, 2900]) == {1: 0, 2: 40, 3: 690, 4: 90}


def test_without_a_power_cut_no_read_may_be_missing() -> None:
    assert ages_at_cut({1: 1000}, [1000], []) == {1: None}
