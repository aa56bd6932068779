"""The rules of a BalloonPool that no type expresses, in the words of the CRD's validations.

An API server runs the validations of `manifests/crds/balloonpools.yaml` itself. An object that an older server let
in, or that was stored before a rule existed, is refused here with the same sentence: one table of bad
manifests is put before both, and the sentences are compared.
"""

from collections.abc import Iterator

from balloons.api.node_rules import node_problems
from balloons.api.pool import BalloonPool, Mode, PodTemplate, PoolSpec, Spread, Strategy
from balloons.api.schedule_rules import schedule_problems
from balloons.api.shape_rules import image_problems, shape_problems
from balloons.api.template_rules import template_problems
from throttler.kube.decoding import Problem
from throttler.kube.quantity import DurationError, parse_duration

LONGEST_NAME = 63
"""Characters of a pool's name: balloons carry it as a label value."""


def problems(pool: BalloonPool) -> tuple[Problem, ...]:
    """Every rule that the pool breaks; empty for a good pool."""
    spec = pool.spec
    return (
        *_name_problems(pool.metadata.name),
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


def _name_problems(name: str) -> Iterator[Problem]:
    if len(name) > LONGEST_NAME:
        yield Problem(
            "metadata.name",
            f'name "{name}" has {len(name)} characters; '
            "accepted: at most 63, because every balloon carries it as a label",
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
    given = f"strategy {strategy.value} with mode {mode.value}"
    if strategy is Strategy.ANNOTATE and mode is not Mode.HOLD:
        why = "Annotate with mode Hold, because an annotation keeps nodes and never adds any"
        yield Problem("spec.strategy", f"{given}; accepted: {why}")
    if strategy is Strategy.CAPACITY_BUFFER and mode is not Mode.HEADROOM:
        why = "CapacityBuffer with mode Headroom, because a buffer makes the autoscaler grow"
        yield Problem("spec.strategy", f"{given}; accepted: {why}")
    if strategy is not Strategy.BALLOON:
        yield from _pod_problems(spec, f"with strategy {strategy.value}")


def _pod_problems(spec: PoolSpec, given: str) -> Iterator[Problem]:
    if spec.spread is not Spread.ANTI_AFFINITY:
        why = "AntiAffinity (the default), because only strategy Balloon has pods to spread"
        yield Problem("spec.spread", f"spread {spec.spread.value} {given}; accepted: {why}")
    if spec.image:
        why = "an image only with strategy Balloon, which alone runs pods"
        yield Problem("spec.image", f'image "{spec.image}" {given}; accepted: {why}')
    if spec.template != PodTemplate():
        why = "a template only with strategy Balloon, which alone runs pods"
        yield Problem("spec.template", f"template is set {given}; accepted: {why}")
    if spec.pre_pull:
        why = "images only with strategy Balloon, which alone runs pods"
        yield Problem("spec.prePull", f"prePull names {len(spec.pre_pull)} images {given}; accepted: {why}")
