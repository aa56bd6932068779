"""`python -m benchmarks.scaleup`: real scale-ups, at once, by fixed rules and by our law.

`--only GROUP` (repeatable) measures some of the groups; figures of the others are then left out.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.report import Report, answer, parser_of, progress
from benchmarks.scaleup.figures import figures
from benchmarks.scaleup.law_pacer import LawPacer
from benchmarks.scaleup.own_requests import OwnRequests, measure_own_requests
from benchmarks.scaleup.pacers import AtOnce, FixedRate, FixedWindow, Pacer
from benchmarks.scaleup.plan import Findings, Group, groups
from benchmarks.scaleup.trial import Trial, run_trial
from lab.scaleup.cluster import start_small_plane
from throttler.law.law_memory import Learned

NODES, ROUNDS, SERVICE_NODES = 400, 3, 100
SERVICE = "service"
FAKED = (
    "Machines are joiners: all requests of a kubelet, no kubelet; all stand ready at once and wait at the gate.",
    "API servers (1 core and 30 seats each), etcd (without fsync), controller manager and scheduler are real.",
    "Every process shares the machine's cores, the machines' requests included: compare within one run only.",
    "The law runs in the benchmark's process on scrapes of the real servers; `service` is the whole product instead.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure is below its floor."""
    parser = parser_of("scaleup")
    names = [group.name for group in groups(NODES, ROUNDS)] + [SERVICE]
    parser.add_argument("--only", action="append", choices=names, help="measure this group, not all")
    parser.add_argument("--nodes", type=int, default=NODES, help=f"joins of each trial (default {NODES})")
    asked = parser.parse_args(arguments)
    report = asyncio.run(_measure(12 if asked.quick else asked.nodes, asked.only or names, is_quick=asked.quick))
    return answer(report, asked, [_trials_table(report)])


async def _measure(nodes: int, only: Sequence[str], is_quick: bool) -> Report:
    wanted = [group for group in groups(nodes, 1 if is_quick else ROUNDS) if group.name in only]
    findings = [await _measure_group(group, is_quick) for group in wanted]
    own = await measure_own_requests(4 if is_quick else SERVICE_NODES) if SERVICE in only else None
    return Report(
        name="scaleup",
        figures=figures({of_group.group.name: of_group for of_group in findings}, own),
        faked=FAKED,
        behind=_behind(findings, own),
        is_quick=is_quick,
    )


async def _measure_group(group: Group, is_quick: bool) -> Findings:
    findings, learned = Findings(group), None
    for pacer in _sweep(group, is_quick):
        findings.add(await _trial(group, pacer))
    for number in range(group.rounds):
        if number:
            findings.add(await _trial(group, FixedWindow(int(findings.best_window.removeprefix("window ")))))
        for is_warm in (False, True):
            trial, learned = await _our_trial(group, learned if is_warm else None)
            findings.add(trial)
        if number and group.has_herd:
            findings.add(await _trial(group, AtOnce()))
    return findings


def _sweep(group: Group, is_quick: bool) -> Iterator[Pacer]:
    if group.has_herd:
        yield AtOnce()
    yield from (FixedWindow(window) for window in (group.windows[:1] if is_quick else group.windows))
    yield from (FixedRate(rate) for rate in (group.rates[:1] if is_quick else group.rates))


async def _trial(group: Group, pacer: Pacer) -> Trial:
    async with start_small_plane(group.setup.servers, group.setup.manager_qps) as plane:
        return _told(group, await run_trial(group.setup, pacer, plane))


async def _our_trial(group: Group, learned: Learned | None) -> tuple[Trial, Learned]:
    async with start_small_plane(group.setup.servers, group.setup.manager_qps) as plane:
        pacer = LawPacer(plane, learned, has_slow_manager=group.setup.has_slow_manager)
        trial = await run_trial(group.setup, pacer, plane)
        return _told(group, trial), pacer.learned


def _told(group: Group, trial: Trial) -> Trial:
    progress(f"{group.name:<14} {_row(trial)}")
    return trial


def _row(trial: Trial) -> str:
    return (
        f"{trial.pacer:<11} all {trial.all_usable_s:6.1f} s  mean {trial.mean_usable_s:5.1f} s  "
        f"first ten {trial.first_ten_usable_s:5.1f} s  a join {trial.join_s:5.1f} s  innocent p50 "
        f"{1000 * trial.bystander_p50_s:4.0f} p99 {1000 * trial.bystander_p99_s:5.0f} ms "
        f"({trial.bystander_refusals} refused)  "
        f"429+5xx {trial.errors:5.0f}"
    )


def _behind(findings: Sequence[Findings], own: OwnRequests | None) -> dict[str, object]:
    groups_behind = {
        of_group.group.name: {
            "setup": of_group.group.setup.text,
            "best_fixed": of_group.best_fixed,
            "trials": msgspec.to_builtins([trial for trials in of_group.trials.values() for trial in trials]),
        }
        for of_group in findings
    }
    return {"groups": groups_behind, "service": msgspec.to_builtins(own) if own else None}


def _trials_table(report: Report) -> str:
    lines = []
    for name, group in report.behind["groups"].items():
        lines.append(f"{name}: {group['setup']}; the best fixed rule is {group['best_fixed']}")
        lines += [f"  {_row(msgspec.convert(trial, Trial))}" for trial in group["trials"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
