"""Variables of the dashboards and the label matchers that go with them."""

from __future__ import annotations

from lab.monitoring.board import Variable

CLUSTER = 'cluster=~"$cluster"'
POOL = f'{CLUSTER},namespace=~"$namespace",pool=~"$pool"'
THROTTLE = f'{CLUSTER},throttle=~"$throttle"'

OF_CLUSTER = Variable("cluster", "kube_balloons_build_info")
OF_POOL = (
    OF_CLUSTER,
    Variable("namespace", f"kube_balloons_pool_nodes{{{CLUSTER}}}"),
    Variable("pool", f'kube_balloons_pool_nodes{{{CLUSTER},namespace=~"$namespace"}}'),
)
OF_THROTTLE = Variable("throttle", f"kube_balloons_throttle_window_joins{{{CLUSTER}}}")


def of_pool(name: str, **labels: str) -> str:
    """A pool's gauge, once, however many replicas show it; `labels` must have these values."""
    return f"max by (cluster, namespace, pool) (kube_balloons_pool_{name}{{{_matchers(POOL, labels)}}})"


def of_throttle(name: str, *keep: str, **labels: str) -> str:
    """A throttle's gauge, once, however many replicas show it.

    `keep` are labels to tell series apart by, besides the throttle; `labels` must match these expressions.
    """
    by = ", ".join(("cluster", "throttle", *keep))
    return f"max by ({by}) (kube_balloons_throttle_{name}{{{_matchers(THROTTLE, labels)}}})"


def _matchers(first: str, labels: dict[str, str]) -> str:
    return ",".join((first, *(f'{name}=~"{value}"' for name, value in labels.items())))
