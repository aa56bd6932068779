"""Taking single elements off a list inside an object, and nothing else."""

from collections.abc import Iterable
from typing import Any


def without_elements(
    path: str, indices: Iterable[int], resource_version: str, marks: dict[str, str]
) -> list[dict[str, Any]]:
    """A JSON patch that removes the elements at `indices` of the list at `path`.

    The version is the precondition: on any other version the indices mean nothing, and the server answers 409.
    `marks` (field -> value) is tested on each element as well, so that an error of ours can only ever fail.
    """
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}
    ]
    # From the back: removing an element moves those behind it.
    for index in sorted(indices, reverse=True):
        element = f"{path}/{index}"
        operations += [{"op": "test", "path": f"{element}/{key}", "value": value} for key, value in marks.items()]
        operations.append({"op": "remove", "path": element})
    return operations
