"""What an expression selects, and inside which function: for the tests of alerts and dashboards."""

import re
from dataclasses import dataclass
from typing import Any

import promql_parser

from balloons.api.pool import PoolStatus
from balloons.decide.decision_and_reasons import PoolDecision, Reason
from balloons.service.metrics import Metrics
from lab.monitoring.panel_values import filled
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import because
from throttler.law.verdict import Phase, ThrottleReason
from throttler.levers.lever_and_reasons import LeverState
from throttler.service.guard import GuardMetrics
from throttler.service.throttle_metrics import STAGES


@dataclass(frozen=True)
class Selector:
    """One vector selector; `function` is what stands directly around it, empty for none.

    A matcher of what a series must not have (`!=`, `!~`) has an empty value.
    """

    name: str
    matchers: dict[str, str]
    function: str
    has_range: bool

    @property
    def family(self) -> str:
        """The metric's name as the registry knows it."""
        return re.sub(r"_(total|bucket|sum|count|info)$", "", self.name)


def plain(expr: str, window: str = "1h") -> str:
    """The expression as Grafana would send it with every variable at All."""
    return filled(expr, window)


def selectors(expr: str) -> list[Selector]:
    """Every selector of an expression without variables; raises ValueError where it does not parse."""
    found: list[Selector] = []
    _collect(promql_parser.parse(expr), "", found)
    return found


def _collect(node: Any, function: str, found: list[Selector]) -> None:
    if isinstance(node, promql_parser.MatrixSelector):
        found.append(_selector(node.vector_selector, function, has_range=True))
    elif isinstance(node, promql_parser.VectorSelector):
        found.append(_selector(node, function, has_range=False))
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            _collect(argument, node.func.name, found)
    else:
        for part in ("lhs", "rhs", "expr"):
            if hasattr(node, part):
                _collect(getattr(node, part), "", found)


def _selector(node: Any, function: str, *, has_range: bool) -> Selector:
    unwanted = (promql_parser.MatchOp.NotEqual, promql_parser.MatchOp.NotRe)
    matchers = {each.name: "" if each.op in unwanted else each.value for each in node.matchers.matchers}
    return Selector(node.name, matchers, function, has_range)


class Known:
    """What service and guard can export: families, their types and labels, and the values of closed label sets."""

    def __init__(self) -> None:
        metrics = Metrics("test")
        metrics.show([PoolDecision(ObjectKey("ns", "pool"), because(Reason.PAUSED), PoolStatus())])
        families = [*metrics.registry.collect(), *GuardMetrics().registry.collect()]
        self.types = {family.name: family.type for family in families}
        self.labels = {"kube_balloons_guard_lease_reads": ("outcome",), **metrics.labels}
        self.values: dict[str, set[str]] = {
            "reason": {reason.code for reason in (*Reason, *ThrottleReason)},
            "phase": {phase.value for phase in Phase},
            "state": {state.value for state in LeverState},
            "stage": set(STAGES),
        }
        for family in families:
            for sample in family.samples:
                for label in {"found", "standing", "outcome"} & sample.labels.keys():
                    self.values.setdefault(label, set()).add(sample.labels[label])


KNOWN = Known()
