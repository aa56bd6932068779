"""The tables for people, beside the figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.pacing.summary import PolicyRow, ScenarioRow

_POLICY_HEAD = (
    "policy",
    "time median / worst",
    "429+5xx median / worst",
    "clean",
    "held > 10 min",
    "lost",
    "unfinished",
    "bystander p99 median / worst",
)
_SCENARIO_HEAD = ("scenario", "policy", "time (worst seed)", "429+5xx worst", "bystander p99", "held > 10 min", "lost")


def policy_table(title: str, rows: Sequence[PolicyRow]) -> str:
    """One line per policy; times and bystanders' p99 over the oracle's."""
    return _table(title, _POLICY_HEAD, [_policy_line(row) for row in rows])


def scenario_table(title: str, rows: Sequence[ScenarioRow]) -> str:
    """One line per scenario and policy."""
    return _table(title, _SCENARIO_HEAD, [_scenario_line(row) for row in rows])


def not_ours_table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per fault and policy: the times of its seeds."""
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["scenario"], row["policy"]), []).append(row)
    lines = [
        (*key, " ".join(f"{row['ratio']:.2f}" for row in seeds), str(sum(row["is_stalled"] for row in seeds)))
        for key, seeds in grouped.items()
    ]
    return _table(title, ("fault", "policy", "time of each seed", "stalls"), lines)


def _policy_line(row: PolicyRow) -> tuple[str, ...]:
    return (
        row.policy,
        f"{row.time_median:.2f} / {row.time_worst:.2f}",
        f"{_share(row.error_share_median)} / {_share(row.error_share_worst)}",
        f"{row.clean} of {row.scenarios}",
        str(row.held_over_10min),
        str(row.lost),
        str(row.unfinished),
        f"{row.p99_ratio_median:.2f} / {row.p99_ratio_worst:.2f}",
    )


def _scenario_line(row: ScenarioRow) -> tuple[str, ...]:
    return (
        row.scenario,
        row.policy,
        f"{row.time_ratio:.2f} ({row.worst_time_ratio:.2f})" + (" unfinished" if row.unfinished else ""),
        _share(row.worst_error_share),
        f"{row.p99_ratio:.2f}",
        str(row.held_over_10min),
        str(row.lost),
    )


def _share(share: float) -> str:
    return "0" if share == 0.0 else f"{share:.1%}" if share >= 0.001 else f"{share:.0e}"


def _table(title: str, head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    rows = [head, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    texts = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, "", texts[0], "-" * max(map(len, texts)), *texts[1:], ""])
