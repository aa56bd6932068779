"""Which ceilings can wait for a moment, and how the user's limits bound them."""

from dataclasses import replace

import pytest

from throttler.kube.metadata import OwnedMetadata
from throttler.kube.quantities_and_durations import QuantityError
from throttler.levers.lever_and_reasons import Holder
from throttler.levers.saved_limits import (
    SavedLimits,
    amount_of,
    clamped,
    is_marked_so,
    marked,
    taken_in,
    unraised,
    with_ceiling,
)

IN_FORCE = {"cpu": 16, "memory": 64}


@pytest.mark.parametrize(
    ("wanted", "usage", "can_wait"),
    [
        ({"cpu": 24, "memory": 96}, {"cpu": 8, "memory": 32}, True),
        ({"cpu": 16, "memory": 96}, {"cpu": 16, "memory": 64}, True),
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
    assert unraised(wanted, IN_FORCE, usage) == (IN_FORCE if can_wait else wanted)


def test_each_resource_is_held_against_its_own_limit() -> None:
    kept = SavedLimits(original={}, ceiling={})
    wanted = {"cpu": 16_000, "nvidia.com/gpu": 8_000}
    assert clamped(wanted, kept, {"cpu": "8"}) == {"nvidia.com/gpu": "8"}
    assert clamped(wanted, kept, {"nvidia.com/gpu": "8"}) == {"cpu": "16"}


def test_ceilings_in_memory_are_whole_mebibytes_and_never_less_than_wanted() -> None:
    kept, mebibyte = SavedLimits(original={}, ceiling={}), 2**20 * 1000
    wanted = {"memory": mebibyte + 1, "cpu": 1}
    assert clamped(wanted, kept, {}) == {"memory": "2Mi", "cpu": "1m"}
    assert clamped({"memory": mebibyte}, kept, {}) == {"memory": "1Mi"}


@pytest.mark.parametrize("value", [True, ["8"], {"cpu": "8"}, None])
def test_what_is_neither_text_nor_a_number_is_no_quantity(value: object) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        amount_of(value)


def test_a_list_of_limits_that_is_gone_as_a_whole_was_taken_away_by_somebody() -> None:
    mark = SavedLimits(original={"cpu": "400"}, ceiling={"cpu": "16"})
    kept = taken_in(mark, None, (), ("spec", "limits"))
    assert (kept.original, kept.ceiling) == ({"cpu": None}, {})
    again = with_ceiling(kept, {"cpu": "8"}, None, (), ("spec", "limits"))
    assert (again.original, again.ceiling) == ({"cpu": None}, {"cpu": "8"})


def test_who_owned_a_value_that_is_restored_already_is_not_asked_anew() -> None:
    """Our own field manager put it back, so the object says less of its owner than the mark does."""
    mark = SavedLimits(original={"cpu": "400"}, ceiling={}, owners={"cpu": (("argocd", "Apply"),)})
    same = with_ceiling(mark, {"cpu": "16"}, {"cpu": "400"}, (), ("spec", "limits"))
    assert (same.original, same.owners) == ({"cpu": "400"}, mark.owners)
    other = with_ceiling(mark, {"cpu": "16"}, {"cpu": "300"}, (), ("spec", "limits"))
    assert (other.original, other.owners) == ({"cpu": "300"}, {})


def test_a_write_is_for_the_version_that_was_decided_on() -> None:
    stands = OwnedMetadata("pool", resource_version="7", uid="u7")
    written = marked(stands, "pool", SavedLimits(original={}, ceiling={}), Holder(throttle="default"))
    assert (written["resourceVersion"], written["uid"]) == ("7", "u7")


def test_an_object_says_all_of_it_or_has_to_be_written() -> None:
    holder = Holder(throttle="default", lease="ours/lease", epoch=3)
    mark = SavedLimits(original={"cpu": "400"}, ceiling={"cpu": "16"})
    written = marked(None, "pool", mark, holder)
    metadata = OwnedMetadata("pool", labels=written["labels"], annotations=written["annotations"])
    assert is_marked_so(metadata, mark, holder)
    assert not is_marked_so(metadata, mark, replace(holder, epoch=4))
    assert not is_marked_so(metadata, SavedLimits(original={"cpu": "300"}, ceiling={"cpu": "16"}), holder)
    assert not is_marked_so(OwnedMetadata("pool", annotations=written["annotations"]), mark, holder)
