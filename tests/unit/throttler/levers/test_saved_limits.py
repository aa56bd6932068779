"""Which ceilings can wait for a moment, and how the user's limits bound them."""

import pytest

from throttler.levers.saved_limits import SavedLimits, clamped, unraised

STANDING = {"cpu": 16, "memory": 64}


@pytest.mark.parametrize(
    ("wanted", "usage", "can_wait"),
    [
        ({"cpu": 24, "memory": 96}, {"cpu": 8, "memory": 32}, True),
        ({"cpu": 24, "memory": 32}, {"cpu": 8, "memory": 32}, False),
        ({"cpu": 8, "memory": 96}, {"cpu": 8, "memory": 32}, False),
        ({"cpu": 24, "memory": 96}, {"cpu": 20, "memory": 32}, False),
        ({"cpu": 24, "memory": 96}, {"cpu": 8, "memory": 80}, False),
        ({"cpu": 24, "memory": 96, "nvidia.com/gpu": 8}, {"cpu": 8}, False),
    ],
)
def test_only_more_room_for_every_resource_can_wait(
    wanted: dict[str, int], usage: dict[str, int], can_wait: bool
) -> None:
    assert unraised(wanted, STANDING, usage) == (STANDING if can_wait else wanted)


def test_each_resource_is_held_against_its_own_limit() -> None:
    kept = SavedLimits(original={}, ceiling={})
    wanted = {"cpu": 16_000, "nvidia.com/gpu": 8_000}
    assert clamped(wanted, kept, {"cpu": "8"}) == {"nvidia.com/gpu": "8"}
    assert clamped(wanted, kept, {"nvidia.com/gpu": "8"}) == {"cpu": "16"}
