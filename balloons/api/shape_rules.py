"""The rules of `spec.shape` and of the images."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from balloons.api.pool import PoolSpec, ShapeSpec, ShapeType
from throttler.kube.decoding import Problem
from throttler.kube.quantity import QuantityError, parse_quantity

STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
RESOURCE_PATTERN = (
    r"(hugepages-[0-9]+[KMGTPE]i|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"
)
"""Every other name that a container may request: huge pages, and devices under their vendor's domain."""
IMAGE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"
LONGEST_RESOURCE = 317
LARGEST = "1P"
"""No machine has more of anything; keeps sums over all nodes far from the 64-bit limit."""

_RESOURCE = re.compile(RESOURCE_PATTERN, re.ASCII)
_IMAGE = re.compile(IMAGE_PATTERN, re.ASCII)
_LARGEST_MILLI = parse_quantity(LARGEST)


def shape_problems(shape: ShapeSpec) -> Iterator[Problem]:
    """What is wrong with the balloon's size."""
    if shape.type is ShapeType.EXPLICIT:
        yield from _explicit_problems(shape)
    elif shape.resources:
        yield Problem(
            "spec.shape.resources",
            f"resources names {len(shape.resources)} resources with type WholeNode; "
            "accepted: resources only with type Explicit",
        )
    for name in shape.devices:
        if not _is_resource(name) or "/" not in name:
            yield Problem(
                "spec.shape.devices",
                f'device "{name}" is not accepted; accepted: a resource with a domain, such as habana.ai/gaudi',
            )
    yield from _quantity_problems(shape.resources, 1, "above 0", "250m, 4 or 64Gi", "spec.shape.resources")
    yield from _device_problems(shape.resources)
    yield from _quantity_problems(shape.slack, 0, "of 0 or more", "0, 250m or 1Gi", "spec.shape.slack")


def _explicit_problems(shape: ShapeSpec) -> Iterator[Problem]:
    if not shape.resources:
        why = "Explicit with resources, such as cpu: 4"
        yield Problem("spec.shape.type", f"type Explicit has no resources; accepted: {why}")
    if shape.slack:
        why = "slack only with type WholeNode"
        given = f"slack names {len(shape.slack)} resources with type Explicit"
        yield Problem("spec.shape.slack", f"{given}; accepted: {why}")
    if shape.devices:
        yield Problem(
            "spec.shape.devices",
            f"devices names {len(shape.devices)} resources with type Explicit; "
            "accepted: devices only with type WholeNode",
        )


def _quantity_problems(texts: Mapping[str, str], least: int, bound: str, examples: str, path: str) -> Iterator[Problem]:
    for name, text in texts.items():
        if not _is_resource(name):
            yield Problem(
                path,
                f'resource "{name}" is unknown; accepted: cpu, memory, ephemeral-storage, hugepages-2Mi and the '
                "like, or a name with a domain such as nvidia.com/gpu",
            )
        milli = _milli(text)
        if milli is None or not least <= milli <= _LARGEST_MILLI:
            yield Problem(
                f"{path}[{name}]",
                f'quantity "{text}" is not accepted; '
                f"accepted: a quantity {bound} and at most {LARGEST}, such as {examples}",
            )


def _device_problems(resources: Mapping[str, str]) -> Iterator[Problem]:
    for name, text in resources.items():
        milli = _milli(text)
        if "/" in name and milli is not None and milli % 1000:
            yield Problem(
                "spec.shape.resources",
                f'resource "{name}" is "{text}"; accepted: whole numbers, because a device is not divided',
            )


def image_problems(spec: PoolSpec) -> Iterator[Problem]:
    """What is wrong with the images' names; whether they may be used is the service's allow-list's matter."""
    if spec.image and not _IMAGE.fullmatch(spec.image):
        yield _no_image(spec.image, "spec.image")
    for index, image in enumerate(spec.pre_pull):
        if not _IMAGE.fullmatch(image):
            yield _no_image(image, f"spec.prePull[{index}]")
    for image, count in Counter(spec.pre_pull).items():
        if count > 1:
            yield Problem("spec.prePull", f'prePull names "{image}" {count} times; accepted: each image once')


def _no_image(image: str, path: str) -> Problem:
    return Problem(
        path, f'image "{image}" is not an image reference; accepted: one such as registry.example/pause:3.10'
    )


def _is_resource(name: str) -> bool:
    is_named = len(name) <= LONGEST_RESOURCE and _RESOURCE.fullmatch(name)
    return name in STANDARD_RESOURCES or bool(is_named)


def _milli(text: str) -> int | None:
    try:
        return parse_quantity(text)
    except QuantityError:
        return None
