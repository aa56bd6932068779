"""From what the API server sends to a BalloonPool, or to the reason why not: the CRD's rules that no type expresses.

The rules of `spec.nodes`: a selector that selects, tolerations a pod may carry, conditions that can clear. The rules
of `spec.shape` and of the images.

An API server runs the validations of `manifests/crds/balloonpools.yaml` itself. An object that an older server let
in, or that was stored before a rule existed, is refused here with the same sentence: one table of bad
manifests is put before both, and the sentences are compared.

The rules of `spec.template`: what the balloon pods may carry besides what the service gives them. Keys of Kubernetes
and of the service itself are not accepted: by them schedulers and autoscalers are told how to treat balloons, and
whoever writes a pool does not decide that.

The rules of `spec.schedules`, and when a schedule's window opens: five cron fields, and a time zone's name. The
grammar is the part that Kubernetes CronJobs and cronsim share: numbers, names, `*`, ranges, lists and steps. The CRD
holds the same patterns; what no pattern can tell (a range that runs backwards, the 30th of February, a zone that does
not exist) is judged here alone, in the same words.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from balloons.api.pool import (
    POOL_KIND,
    BalloonPool,
    Mode,
    NotWarm,
    PodTemplate,
    PoolNodes,
    PoolSpec,
    PoolStatus,
    Schedule,
    ShapeSpec,
    ShapeType,
    Spread,
    Strategy,
)
from throttler.kube import quantities_and_durations
from throttler.kube.custom_objects import Form, Invalid, Problem, decode_object, name_problems, not_one_of, texts
from throttler.kube.quantities_and_durations import (
    DurationError,
    count,
    milli_or_none,
    parse_duration,
    parse_quantity,
)
from throttler.kube.selectors import KEY_PATTERN, LONGEST_KEY, VALUE_PATTERN, LabelSelector, selector_problems
from throttler.kube.taints import Toleration

__all__ = ["Invalid", "decode_pool"]
_QUANTITY_FIELDS = ("resources", "slack")
LONGEST_TOLERATION_S = 31_536_000
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
STATUSES = ("True", "False", "Unknown")
STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
RESOURCE_PATTERN = (
    r"(hugepages-[0-9]+[KMGTPE]i|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"
)
"""Every other name that a container may request: huge pages, and devices under their vendor's domain."""
IMAGE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:@-]*(/[A-Za-z0-9._:@-]+)*"
"""No scheme and no folder: the kubelet would call a balloon's image InvalidImageName for ever."""
LONGEST_RESOURCE = 317
LARGEST = "1P"
"""No machine has more of anything; keeps sums over all nodes far from the 64-bit limit."""
_RESOURCE = re.compile(RESOURCE_PATTERN, re.ASCII)
_IMAGE = re.compile(IMAGE_PATTERN, re.ASCII)
_LARGEST_MILLI = parse_quantity(LARGEST)
RESERVED_PATTERN = r"(.*\.)?(kubernetes\.io|k8s\.io|kube-balloons\.github\.io)/.*"
NAME_PATTERN = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_KEY, _VALUE = re.compile(KEY_PATTERN, re.ASCII), re.compile(VALUE_PATTERN, re.ASCII)
_RESERVED, _NAME = re.compile(RESERVED_PATTERN, re.ASCII), re.compile(NAME_PATTERN, re.ASCII)
_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_FIELDS = (
    "[0-5]?[0-9]",
    "([01]?[0-9]|2[0-3])",
    "(0?[1-9]|[12][0-9]|3[01])",
    f"(0?[1-9]|1[0-2]|{_MONTHS})",
    "([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)",
)
ZONE_PATTERN = "[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"
CRON_ACCEPTED = "minute hour day month weekday, such as 0 8 * * MON-FRI"
ZONE_ACCEPTED = "an IANA name such as Etc/UTC or Europe/Berlin"
_ZONE = re.compile(ZONE_PATTERN, re.ASCII)
_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def decode_pool(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> BalloonPool | Invalid:
    """The pool of an object as the API server sends it (JSON, or the same as plain data)."""
    return decode_object(raw, _FORM)


def _with_textual_quantities(spec: Any) -> Any:
    """The same spec with whole-number quantities as text."""
    shape = spec.get("shape") if isinstance(spec, dict) else None
    if not isinstance(shape, dict):
        return spec
    amounts = {name: texts(shape[name]) for name in _QUANTITY_FIELDS if name in shape}
    return {**spec, "shape": {**shape, **amounts}}


def problems(pool: BalloonPool) -> tuple[Problem, ...]:
    """Every rule that the pool breaks; empty for a good pool."""
    spec = pool.spec
    return (
        *name_problems(pool.metadata.name, "every balloon"),
        *_size_problems(spec),
        *_fallback_problems(spec),
        *_mode_problems(spec),
        *_strategy_problems(spec),
        *node_problems(spec.nodes),
        *schedule_problems(spec),
        *shape_problems(spec.shape),
        *image_problems(spec),
        *template_problems(spec.template),
    )


_FORM = Form(
    kind=POOL_KIND,
    spec=PoolSpec,
    status=PoolStatus,
    make=BalloonPool,
    rules=problems,
    prepared=_with_textual_quantities,
    without_spec=Problem("spec", "spec is missing; accepted: a mapping with nodes and mode"),
)


def _size_problems(spec: PoolSpec) -> Iterator[Problem]:
    if spec.size is not None and spec.size_percent is not None:
        yield Problem(
            "spec.size",
            f"size {spec.size} and sizePercent {spec.size_percent} are both set; accepted: one of them "
            "(remove sizePercent before the pool is scaled by kubectl scale, a HorizontalPodAutoscaler or KEDA)",
        )
    if spec.max_size is not None:
        yield from _above_max(spec, spec.max_size)
    elif spec.size_percent is not None:
        yield Problem(
            "spec.sizePercent",
            f"sizePercent {spec.size_percent} is a share of maxSize, which is not set; "
            "accepted: sizePercent together with maxSize",
        )


def _above_max(spec: PoolSpec, max_size: int) -> Iterator[Problem]:
    for name, size in (("size", spec.size), ("minSize", spec.min_size)):
        if size is not None and size > max_size:
            yield Problem(f"spec.{name}", f"{name} {size} is above maxSize {max_size}; accepted: 0 to maxSize")


def _fallback_problems(spec: PoolSpec) -> Iterator[Problem]:
    try:
        parse_duration(spec.fallback_after)
    except DurationError as error:
        yield Problem("spec.fallbackAfter", str(error))


def _mode_problems(spec: PoolSpec) -> Iterator[Problem]:
    if spec.mode is not Mode.HEADROOM:
        return
    if spec.size is None and spec.size_percent is None:
        yield Problem(
            "spec.mode",
            "mode Headroom has no size; accepted: Headroom with size or sizePercent, "
            "the nodes to keep warm on top of work",
        )
    if spec.max_size is None:
        yield Problem(
            "spec.mode",
            "mode Headroom has no maxSize; accepted: Headroom with maxSize, the most nodes that it may lead to",
        )


def _strategy_problems(spec: PoolSpec) -> Iterator[Problem]:
    mode, strategy = spec.mode, spec.strategy
    combination = f"strategy {strategy.value} with mode {mode.value}"
    if strategy is Strategy.ANNOTATE and mode is not Mode.HOLD:
        why = "Annotate with mode Hold, because an annotation keeps nodes and never adds any"
        yield Problem("spec.strategy", f"{combination}; accepted: {why}")
    if strategy is Strategy.CAPACITY_BUFFER and mode is not Mode.HEADROOM:
        why = "CapacityBuffer with mode Headroom, because a buffer makes the autoscaler grow"
        yield Problem("spec.strategy", f"{combination}; accepted: {why}")
    if strategy is not Strategy.BALLOON:
        yield from _pod_problems(spec, f"with strategy {strategy.value}")


def _pod_problems(spec: PoolSpec, strategy: str) -> Iterator[Problem]:
    if spec.spread is not Spread.ANTI_AFFINITY:
        why = "AntiAffinity (the default), because only strategy Balloon has pods to spread"
        yield Problem("spec.spread", f"spread {spec.spread.value} {strategy}; accepted: {why}")
    if spec.image:
        why = "an image only with strategy Balloon, which alone runs pods"
        yield Problem("spec.image", f'image "{spec.image}" {strategy}; accepted: {why}')
    if spec.template != PodTemplate():
        why = "a template only with strategy Balloon, which alone runs pods"
        yield Problem("spec.template", f"template is set {strategy}; accepted: {why}")
    if spec.pre_pull:
        why = "images only with strategy Balloon, which alone runs pods"
        yield Problem("spec.prePull", f"prePull names {count(len(spec.pre_pull), 'image')} {strategy}; accepted: {why}")


def node_problems(nodes: PoolNodes) -> Iterator[Problem]:
    """What is wrong with the pool's selector, tolerations and `notWarm`."""
    yield from _selector_problems(nodes.selector)
    for index, toleration in enumerate(nodes.tolerations):
        yield from _toleration_problems(toleration, f"spec.nodes.tolerations[{index}]")
    yield from _not_warm_problems(nodes.not_warm)
    try:
        parse_duration(nodes.not_ready_grace)
    except DurationError as error:
        yield Problem("spec.nodes.notReadyGrace", str(error))


def _selector_problems(selector: LabelSelector) -> Iterator[Problem]:
    path = "spec.nodes.selector"
    if not selector.match_labels and not selector.match_expressions:
        yield Problem(
            path,
            "selector {} matches every node; accepted: at least one entry in matchLabels or matchExpressions",
        )
    yield from selector_problems(selector, path)


def _toleration_problems(toleration: Toleration, path: str) -> Iterator[Problem]:
    operator, effect, seconds = toleration.operator, toleration.effect, toleration.toleration_seconds
    yield from not_one_of(operator, ("Equal", "Exists"), f"{path}.operator")
    if effect:
        yield from not_one_of(effect, EFFECTS, f"{path}.effect")
    if not toleration.key and operator != "Exists":
        yield Problem(
            path,
            f"operator {operator} has no key; accepted: a key, or operator Exists to tolerate every taint",
        )
    if operator == "Exists" and toleration.value:
        yield Problem(path, f'operator Exists has the value "{toleration.value}"; accepted: no value')
    if seconds is not None and effect != "NoExecute":
        yield Problem(
            path,
            f'tolerationSeconds {seconds} with effect "{effect}"; accepted: only with effect NoExecute',
        )
    if seconds is not None and not 0 <= seconds <= LONGEST_TOLERATION_S:
        yield Problem(
            f"{path}.tolerationSeconds",
            f"tolerationSeconds {seconds} is not accepted; accepted: a whole number from 0 to {LONGEST_TOLERATION_S}",
        )


def _not_warm_problems(not_warm: NotWarm) -> Iterator[Problem]:
    path = "spec.nodes.notWarm"
    for index, taint in enumerate(not_warm.taints):
        if taint.effect:
            yield from not_one_of(taint.effect, EFFECTS, f"{path}.taints[{index}].effect")
    for index, condition in enumerate(not_warm.conditions):
        yield from not_one_of(condition.status, STATUSES, f"{path}.conditions[{index}].status")
        if (condition.type, condition.status) == ("Ready", "True"):
            yield Problem(
                f"{path}.conditions[{index}]",
                'condition Ready with status "True" would mean that no node is ever warm; '
                "accepted: the condition of a sick node",
            )


def shape_problems(shape: ShapeSpec) -> Iterator[Problem]:
    """What is wrong with the balloon's size."""
    if shape.type is ShapeType.EXPLICIT:
        yield from _explicit_problems(shape)
    elif shape.resources:
        yield Problem(
            "spec.shape.resources",
            f"resources names {count(len(shape.resources), 'resource')} with type WholeNode; "
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
        slack = f"slack names {count(len(shape.slack), 'resource')} with type Explicit"
        yield Problem("spec.shape.slack", f"{slack}; accepted: {why}")
    if shape.devices:
        yield Problem(
            "spec.shape.devices",
            f"devices names {count(len(shape.devices), 'resource')} with type Explicit; "
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
        milli = milli_or_none(text)
        if milli is None or not least <= milli <= _LARGEST_MILLI:
            yield Problem(
                f"{path}[{name}]",
                f'quantity "{text}" is not accepted; '
                f"accepted: a quantity {bound} and at most {LARGEST}, such as {examples}",
            )


def _device_problems(resources: Mapping[str, str]) -> Iterator[Problem]:
    for name, text in resources.items():
        milli = milli_or_none(text)
        if "/" in name and milli is not None and milli % 1000:
            yield Problem(
                "spec.shape.resources",
                f'resource "{name}" is "{text}"; accepted: whole numbers, because a device is not divided',
            )


def image_problems(spec: PoolSpec) -> Iterator[Problem]:
    """What is wrong with the images' names; whether they may be used is the service's allow-list's matter."""
    if spec.image and (words := image_in_words(spec.image)):
        yield Problem("spec.image", words)
    for index, image in enumerate(spec.pre_pull):
        if words := image_in_words(image):
            yield Problem(f"spec.prePull[{index}]", words)
    for image, times in Counter(spec.pre_pull).items():
        if times > 1:
            yield Problem("spec.prePull", f'prePull names "{image}" {times} times; accepted: each image once')


def image_in_words(image: str) -> str:
    """What is wrong with an image's name, a pool's or the service's own; empty where nothing is."""
    words = f'image "{image}" is not an image reference; accepted: one such as registry.example/pause:3.10'
    return "" if _IMAGE.fullmatch(image) else words


def secret_in_words(name: str) -> str:
    """What is wrong with the name of a pull secret, a pool's or the service's own; empty where nothing is."""
    words = f'name "{name}" is not accepted; accepted: the name of a Secret, such as registry'
    return "" if _NAME.fullmatch(name) else words


def _is_resource(name: str) -> bool:
    is_named = len(name) <= LONGEST_RESOURCE and _RESOURCE.fullmatch(name)
    return name in STANDARD_RESOURCES or bool(is_named)


def template_problems(template: PodTemplate) -> Iterator[Problem]:
    """What is wrong with the template."""
    for field, pairs in (("labels", template.labels), ("annotations", template.annotations)):
        for key in pairs:
            if len(key) > LONGEST_KEY or not _KEY.fullmatch(key) or _RESERVED.fullmatch(key):
                yield Problem(
                    f"spec.template.{field}",
                    f'key "{key}" is not accepted; '
                    "accepted: a key outside kubernetes.io, k8s.io and kube-balloons.github.io, such as team",
                )
    for key, value in template.labels.items():
        if not _VALUE.fullmatch(value):
            yield Problem(
                f"spec.template.labels[{key}]",
                f'label value "{value}" cannot be on a pod; accepted: at most 63 letters, digits, -, _ and .',
            )
    for index, secret in enumerate(template.image_pull_secrets):
        if words := secret_in_words(secret.name):
            yield Problem(f"spec.template.imagePullSecrets[{index}].name", words)
    if template.runtime_class_name and not _NAME.fullmatch(template.runtime_class_name):
        yield Problem(
            "spec.template.runtimeClassName",
            f'name "{template.runtime_class_name}" is not accepted; '
            "accepted: the name of a RuntimeClass, such as nvidia",
        )


def schedule_problems(spec: PoolSpec) -> Iterator[Problem]:
    """What is wrong with the schedules, alone and against `maxSize`."""
    yield from _limit_problems(spec)
    for index, schedule in enumerate(spec.schedules):
        path = f"spec.schedules[{index}]"
        yield from _time_problems(schedule, path)
        yield from _schedule_size_problems(schedule, path)


def _limit_problems(spec: PoolSpec) -> Iterator[Problem]:
    """The first schedule that breaks each limit, as the CRD tells it."""
    if spec.max_size is None:
        percents = ((s.cron, s.size_percent) for s in spec.schedules if s.size_percent is not None)
        for cron, percent in list(percents)[:1]:
            yield Problem(
                "spec.schedules",
                f'schedule "{cron}" has sizePercent {percent}, a share of maxSize, which is not set; '
                "accepted: sizePercent together with maxSize",
            )
        return
    sizes = [(s.cron, s.size) for s in spec.schedules if s.size is not None and s.size > spec.max_size]
    for cron, size in sizes[:1]:
        yield Problem(
            "spec.schedules",
            f'schedule "{cron}" has size {size}, above maxSize {spec.max_size}; accepted: 0 to maxSize',
        )


def _time_problems(schedule: Schedule, path: str) -> Iterator[Problem]:
    if not is_cron(schedule.cron):
        yield Problem(f"{path}.cron", f'cron "{schedule.cron}" is not accepted; accepted: {CRON_ACCEPTED}')
    if not is_zone(schedule.time_zone):
        yield Problem(f"{path}.timeZone", f'timeZone "{schedule.time_zone}" is not accepted; accepted: {ZONE_ACCEPTED}')
    try:
        quantities_and_durations.parse_duration(schedule.duration)
    except quantities_and_durations.DurationError as error:
        yield Problem(f"{path}.duration", str(error))


def _schedule_size_problems(schedule: Schedule, path: str) -> Iterator[Problem]:
    size, percent = schedule.size, schedule.size_percent
    if size is not None and percent is not None:
        yield Problem(
            path,
            f"size {size} and sizePercent {percent} are both set; accepted: exactly one of them in a schedule",
        )
    if size is None and percent is None:
        yield Problem(
            path,
            f'schedule "{schedule.cron}" has no size; accepted: exactly one of size and sizePercent in a schedule',
        )


def _list_of(value: str) -> str:
    item = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


CRON_PATTERN = " ".join(_list_of(value) for value in _FIELDS)
"""Minute, hour, day of the month, month, weekday; upper or lower case, one space between them."""


_CRON = re.compile(CRON_PATTERN, re.ASCII | re.IGNORECASE)


def is_cron(text: str) -> bool:
    """Whether the text is a cron expression that fires at all; cronsim refuses days that never come."""
    if not _CRON.fullmatch(text):
        return False
    try:
        CronSim(text, _ANY_MOMENT)
    except CronSimError:
        return False
    return True


def is_zone(name: str) -> bool:
    """Whether the name is a time zone of the system's database or of the tzdata package."""
    if not _ZONE.fullmatch(name):
        return False
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        # ZoneInfoNotFoundError is a KeyError; a name of a folder such as "America" is an OSError or ValueError.
        return False
    return True
