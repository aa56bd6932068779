"""The end of the demo: one table, and the same figures in summary.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.demo.narration import Narrator
from lab.demo.scene import BOOT_S, UNNEEDED_S
from lab.demo.story import GANG, Findings

SUMMARY = Path("summary.json")


def summarise(narrator: Narrator, findings: Findings, autoscaler: str) -> None:
    """Print the table, write summary.json, say what is simulated."""
    figures = findings.figures
    narrator.act("Summary")
    for left, without, with_balloons in _rows(figures):
        narrator.plain(f"  {left:<44}{without:>18}{with_balloons:>22}")
    narrator.plain()
    narrator.plain(f"  Real: etcd, API server, scheduler, controller manager, kubelets, {autoscaler}, kube-balloons.")
    narrator.plain(f"  Simulated: the machines (boot in about {BOOT_S:.0f} s, no containers) and their GPUs.")
    for broken in findings.broken:
        narrator.plain(f"  NOT AS PROMISED: {broken}")
    SUMMARY.write_text(json.dumps(_document(findings, autoscaler, narrator.elapsed_s), indent=2) + "\n")
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


def _document(findings: Findings, autoscaler: str, elapsed_s: float) -> dict[str, Any]:
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in findings.figures.items()}
    return {
        "autoscaler": autoscaler,
        "gang_size": GANG,
        "boot_median_s": BOOT_S,
        "unneeded_s": UNNEEDED_S,
        **rounded,
        "broken_promises": findings.broken,
        "demo_s": round(elapsed_s, 1),
    }
