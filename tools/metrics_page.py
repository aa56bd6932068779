"""Writes docs/metrics.md from the registry: `python -m tools.metrics_page > docs/metrics.md`."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Metric

from balloons.service.metrics import Metrics
from throttler.service.guard import GuardMetrics

_HEAD = """# Metrics

Served by `balloons run` at `/metrics` of `--metrics-address`. Written from the code by
`python -m tools.metrics_page > docs/metrics.md`; a test compares the two. No series exists per node or
per pod. Series of known label values are there from the start with 0; series of a pool end with the pool.

"""
_GUARD = """
## The guard

Served by `balloons guard`, by the same paths at its own address.

"""
_TABLE = "| metric and type | labels | meaning |\n|---|---|---|\n"


def metrics_page() -> str:
    """The whole page."""
    service, guard = Metrics("example"), GuardMetrics()
    guard_labels = {family.name: sorted({*_label_names(family)}) for family in guard.registry.collect()}
    return _HEAD + _table(service.registry, service.labels) + _GUARD + _table(guard.registry, guard_labels)


def _table(registry: CollectorRegistry, labels: Mapping[str, Sequence[str]]) -> str:
    return _TABLE + "".join(f"{line}\n" for line in _lines(registry, labels))


def _label_names(family: Metric) -> Iterator[str]:
    return (name for sample in family.samples for name in sample.labels)


def _lines(registry: CollectorRegistry, label_names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for family in sorted(registry.collect(), key=_name):
        labels = ", ".join(f"`{label}`" for label in label_names.get(family.name, ())) or "none"
        yield f"| `{_name(family)}`<br>{family.type} | {labels} | {family.documentation} |"


def _name(family: Metric) -> str:
    """The name as it is scraped."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


if __name__ == "__main__":
    print(metrics_page(), end="")
