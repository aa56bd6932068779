"""Who owns a field of an object: entries of the server, less those of subresources."""

from typing import Any

import pytest

from throttler.kube.metadata import owners_of, with_owners, without_manager

CPU = ("spec", "limits", "cpu")


def entry(manager: str, fields: Any, operation: str = "Apply", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


LIMITS = {"f:spec": {"f:limits": {"f:cpu": {}, "f:memory": {}}}}


@pytest.mark.parametrize(
    ("entries", "owners"),
    [
        ((entry("a", LIMITS), entry("b", LIMITS, "Update")), (("a", "Apply"), ("b", "Update"))),
        ((entry("a", LIMITS, subresource="status"),), ()),
        ((entry("a", LIMITS, subresource=""),), (("a", "Apply"),)),
        ((entry("a", {"f:spec": {"f:limits": {"f:memory": {}}}}),), ()),
        ((entry("a", {"f:spec": {}}),), ()),
        ((entry("a", {"f:spec": 5}), entry("b", None), {}), ()),
    ],
)
def test_owners_are_who_has_the_field_of_the_object_itself(
    entries: tuple[dict[str, Any], ...], owners: tuple[tuple[str, str], ...]
) -> None:
    assert owners_of(entries, CPU) == owners


def test_a_field_is_given_to_its_owners_alone_and_who_owns_nothing_goes() -> None:
    entries = (
        entry("a", {"f:spec": {"f:limits": {"f:cpu": {}}}}),
        entry("b", LIMITS),
        entry("c", {"f:spec": {"f:x": {}}}),
    )
    given = with_owners(entries, CPU, [("c", "Apply"), ("gone", "Apply")])
    assert owners_of(given, CPU) == (("c", "Apply"),)
    assert [each["manager"] for each in given] == ["b", "c"]
    assert owners_of(given, ("spec", "limits", "memory")) == (("b", "Apply"),)
    assert owners_of(given, ("spec", "x")) == (("c", "Apply"),)


def test_what_the_owners_own_already_and_what_is_of_a_subresource_stays_as_it_is() -> None:
    entries = (entry("a", LIMITS), entry("b", {"f:spec": {"f:x": {}}}), entry("c", LIMITS, subresource="status"))
    assert with_owners(entries, CPU, [("a", "Apply")]) == entries


@pytest.mark.parametrize(("fields", "are_kept"), [(None, False), ("nonsense", True)])
def test_an_owner_whose_entry_names_no_fields_is_given_none(fields: Any, are_kept: bool) -> None:
    bare = entry("a", fields)
    assert with_owners((bare,), CPU, [("a", "Apply")]) == ((bare,) if are_kept else ())


def test_entries_of_a_manager_go_as_a_whole() -> None:
    entries = (entry("a", LIMITS), entry("b", LIMITS), entry("a", LIMITS, "Update"))
    assert [each["manager"] for each in without_manager(entries, "a")] == ["b"]
