"""Writes docs/metrics.md from the registry: `python -m balloons.service.metrics_page > docs/metrics.md`."""

from collections.abc import Iterator

from prometheus_client import Metric

from balloons.service.metrics import Metrics

_HEAD = """# Metrics

Served by `balloons run` at `/metrics` of `--metrics-address`. Written from the code by
`python -m balloons.service.metrics_page > docs/metrics.md`; a test compares the two. No series exists per node or
per pod. Series of known label values are there from the start with 0; series of a pool end with the pool.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    """The whole page."""
    return _HEAD + "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    metrics = Metrics("example")
    for family in sorted(metrics.registry.collect(), key=_name):
        labels = ", ".join(f"`{label}`" for label in metrics.labels.get(family.name, ())) or "none"
        yield f"| `{_name(family)}` | {family.type} | {labels} | {family.documentation} |"


def _name(family: Metric) -> str:
    """The name as it is scraped."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


if __name__ == "__main__":
    print(metrics_page(), end="")
