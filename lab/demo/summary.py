"""The end of the demo: one table, and the same figures in summary.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.demo.narration import Findings, Narrator
from lab.demo.rush import RushRecord
from lab.demo.rush_story import Rushes
from lab.demo.scene import BOOT_S, UNNEEDED_S
from lab.demo.story import GANG

SUMMARY = Path("summary.json")


def summarise(narrator: Narrator, findings: Findings, rushes: Rushes, autoscaler: str) -> None:
    """Print the table, write summary.json, say what is simulated."""
    figures = findings.figures
    narrator.act("Summary")
    for left, without, with_balloons in _rows(figures):
        narrator.plain(f"  {left:<52}{without:>18}{with_balloons:>22}")
    narrator.plain()
    for left, at_once, paced in _rush_rows(rushes):
        narrator.plain(f"  {left:<52}{at_once:>18}{paced:>22}")
    narrator.plain(f"  {price_of_pacing(rushes)}")
    narrator.plain()
    narrator.plain(f"  Real: etcd, API server, scheduler, controller manager, kubelets, {autoscaler}, kube-balloons.")
    narrator.plain(
        f"  Simulated: the machines (boot in about {BOOT_S:.0f} s, no containers) and their GPUs; in the rush also"
    )
    narrator.plain(
        "  kubelets, of which only the requests are there. Both rushes had the same demand, machines and limits."
    )
    for broken in findings.broken:
        narrator.plain(f"  NOT AS PROMISED: {broken}")
    SUMMARY.write_text(json.dumps(_document(findings, rushes, autoscaler, narrator.elapsed_s), indent=2) + "\n")
    narrator.plain(f"  {SUMMARY} has the figures; the whole demo took {narrator.elapsed_s:.0f} s.")


def _rows(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        ("", "without balloons", "with balloons"),
        (f"idle nodes left after the autoscaler's {UNNEEDED_S} s", "0", f"{figures['held_nodes']} of {GANG} wanted"),
        (
            f"a job of {GANG} whole nodes has its last node",
            f"{figures['cold_bind_last_s']:.1f} s",
            f"{figures['warm_bind_last_ms']:.0f} ms",
        ),
        ("warm again (Headroom) after", "never", f"{figures['headroom_warm_again_after_s']:.0f} s"),
    ]


def _document(findings: Findings, rushes: Rushes, autoscaler: str, elapsed_s: float) -> dict[str, Any]:
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in findings.figures.items()}
    return {
        "autoscaler": autoscaler,
        "gang_size": GANG,
        "boot_median_s": BOOT_S,
        "unneeded_s": UNNEEDED_S,
        **rounded,
        "scale_up": rush_figures(rushes),
        "broken_promises": findings.broken,
        "demo_s": round(elapsed_s, 1),
    }


def _rush_rows(rushes: Rushes) -> list[tuple[str, str, str]]:
    both = (rushes.at_once, rushes.paced)
    half_s = rushes.half_time_s

    def row(text: str, show: Callable[[RushRecord], str]) -> tuple[str, str, str]:
        return text, show(both[0]), show(both[1])

    return [
        (f"one job asks for {len(both[0].usable_s)} whole nodes", "at once", "paced"),
        row("all nodes usable after", lambda rush: f"{rush.all_usable_s:.0f} s"),
        row("DaemonSets' pods that did not run yet by then", lambda rush: f"{rush.unstarted:,}"),
        row("these ran too after", lambda rush: f"{rush.settled_s:.0f} s"),
        row("a node usable after, on average", lambda rush: f"{rush.mean_usable_s:.0f} s"),
        row(f"nodes usable after {half_s:.0f} s", lambda rush: str(rush.usable_at(half_s))),
        row("an innocent client's request, p50", lambda rush: f"{rush.bystander_p50_ms:.0f} ms"),
        row("an innocent client's request, p99", lambda rush: f"{rush.bystander_p99_ms:.0f} ms"),
        row("its requests that were refused", lambda rush: str(rush.bystander_refusals)),
        row("answers 429 and 5xx", lambda rush: str(rush.errors)),
        row("the API server used of a core", lambda rush: f"{rush.server_busy:.0%}"),
        row("requests sent in vain", lambda rush: str(rush.in_vain)),
    ]


def price_of_pacing(rushes: Rushes) -> str:
    """What pacing cost and what it bought, in one line."""
    herd, paced = rushes.at_once, rushes.paced
    later_s = paced.all_usable_s - herd.all_usable_s
    cost = f"cost {later_s:.0f} s" if later_s >= 1 else "cost no time" if later_s > -1 else f"spared {-later_s:.0f} s"
    shorter = herd.bystander_p99_ms / max(1.0, paced.bystander_p99_ms)
    return (
        f"Pacing {cost} ({paced.all_usable_s / herd.all_usable_s - 1:+.0%}); the innocent client's worst waits were "
        f"{shorter:.1f} times shorter, {herd.errors - paced.errors} answers of 429 and 5xx were spared."
    )


def rush_figures(rushes: Rushes) -> dict[str, Any]:
    """Both runs, as summary.json has them."""
    return {
        "nodes": len(rushes.paced.usable_s),
        "half_time_s": round(rushes.half_time_s, 2),
        "at_once": _figures(rushes.at_once, rushes.half_time_s),
        "paced": _figures(rushes.paced, rushes.half_time_s),
    }


def _figures(record: RushRecord, half_s: float) -> dict[str, Any]:
    return {
        "all_usable_s": round(record.all_usable_s, 2),
        "daemon_pods_unstarted": record.unstarted,
        "settled_s": round(record.settled_s, 2),
        "mean_usable_s": round(record.mean_usable_s, 2),
        "usable_at_half_time": record.usable_at(half_s),
        "innocent_p50_ms": round(record.bystander_p50_ms, 1),
        "innocent_p99_ms": round(record.bystander_p99_ms, 1),
        "innocent_requests": record.bystander_requests,
        "innocent_refusals": record.bystander_refusals,
        "errors": record.errors,
        "sent_in_vain": record.in_vain,
        "api_server_busy": round(record.server_busy, 3),
        "machines": record.machines,
    }
