"""The law's settings of one JoinThrottle: its own figures, and its preset's where it gives none. Pure."""

from throttler.api.throttle import ThrottleSpec, Window
from throttler.law.presets import PRESETS, Bounds
from throttler.law.settings import LawSettings

UNLIMITED = 100_000
"""More machines in flight than any cluster has nodes."""


def law_settings(spec: ThrottleSpec) -> LawSettings:
    """What the user bounds; never raises for a spec that keeps the rules of `throttler.api.throttle_rules`."""
    bounds = window_bounds(spec.window, PRESETS[spec.preset])
    levers = spec.levers
    # Where the user says how a cold start begins, idle CPU does not make it more.
    guess_trust = LawSettings().guess_trust if spec.window.initial is None else 0.0
    return LawSettings(
        guess_trust=guess_trust,
        window_initial=bounds.initial,
        window_min=bounds.min,
        window_max=bounds.max,
        max_in_flight=spec.max_in_flight or UNLIMITED,
        has_gate=any((levers.startup_taint, levers.daemon_set_label)),
        registers_freely=True,
        max_wait_s=spec.max_wait_s,
        kill_timer_s=spec.kill_timer_s,
        reserved_nodes=spec.reserved.nodes,
        safe_per_min=spec.pace.safe_per_minute,
        max_per_min=spec.pace.max_per_minute,
    )


def window_bounds(given: Window, preset: Bounds) -> Bounds:
    """The preset's figures give way to those that are given: `max: 10` alone also lowers where a scale-up begins."""
    asked = [each for each in (given.min, given.initial, given.max) if each is not None]
    low = given.min or min([preset.min, *asked])
    high = given.max or max([preset.max, *asked])
    return Bounds(initial=given.initial or min(max(preset.initial, low), high), min=low, max=high)
