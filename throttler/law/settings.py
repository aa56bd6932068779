"""The figures that steer the law, each with its unit, its meaning and where it comes from; and what a spec and a preset
make of them. Constants of one part of the law stand with that part.

"Study" is the simulation of twelve scenarios, "real" the runs on a real API server, both recorded in
docs/decisions/0009-history-of-the-pacing-law.md. The spec's own figures count, and its preset's where it gives none.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Self

from throttler.api.throttle import Preset, ThrottleSpec, Window
from throttler.joins.joins import levers_in_effect
from throttler.kube.daemon_set import DaemonSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LawSettings:
    """What the user bounds, and the law's constants. Raises ValueError when a figure is out of its range."""

    # What the user says (JoinThrottle), or the provider's preset.

    window_initial: float = 24
    """Joins in flight that a cold start tries first."""
    window_min: float = 2
    """The window never falls below this, so that the law can always probe up again."""
    window_max: float = 5000
    """The window never rises above this."""
    max_in_flight: int = 100_000
    """The most that may be booting, held and joining together."""
    has_gate: bool = True
    """Whether a lever at the join can hold booted machines back."""
    registers_freely: bool = True
    """Whether that lever lets a kubelet register first (taint, label): that part of a join nothing holds back."""
    max_wait_s: float = 600.0
    """The longest a booted machine may be held."""
    kill_timer_s: float = 900.0
    """A machine that has not registered by then is destroyed (both autoscalers: 15 min)."""
    reserved_nodes: int = 2
    """Joins that small or urgent demand may have beyond the window."""
    safe_per_min: float | None = None
    """Joins per minute while the signals cannot be trusted; None: what was in order just before."""
    max_per_min: float | None = None
    """Joins per minute never exceed this; None: no such bound."""

    # Signals.

    baseline_s: float = 180.0
    """How much idle history the baseline is the median of (study)."""
    baseline_floor_s: float = 0.02
    """A ratio to the 1-4 ms of a small idle server is noise (real)."""
    baseline_ceiling_s: float = 0.1
    """A slower baseline is not believed: it would call an overloaded cluster normal."""

    # Avoid: the gradient law.

    target: float = 9.0
    """T: index at which the gradient alone neither grows nor shrinks the window (study)."""
    patient_delay_s: float = 1.2
    """Where joins end within two scrapes, with a lever at the join, the window rests at no less delay: it tells soon
    what a step did, and a soft knee can be used (about a second was best, real)."""
    wave_delay_s: float = 0.9
    """The same without such a lever. Any wave makes much delay on a small server, and many small ones are more work
    than few large ones; but with 1.2 s larger waves met errors and ended no sooner (real)."""
    queue: float = 0.4
    """q: upward pressure that probes for capacity; the equilibrium is T / (1 - q) (study)."""
    gain: float = 0.2
    """Share of the gradient's pull that one adaptation time applies (study)."""
    used_share: float = 0.6
    """The window grows only while at least this share of it is in use (study)."""
    cut: float = 0.05
    """Share that a cut takes off the window per equilibrium that two samples in a row are above it ..."""
    cut_limit: float = 0.15
    """... and the most that one cut takes."""
    room_gain: float = 0.25
    """Share of the room that utilisation leaves by which the window grows per adaptation time."""

    room_boost: float = 3.0
    """... and so many times as fast as the gradient alone at most."""
    beyond_knee: float = 0.75
    """Beyond a knee that was met, the window grows by this share of the gradient's pull: it is the likely limit, as
    CUBIC has it (RFC 9438, 4.2)."""
    seats_taken: float = 0.7
    """Share of a server's seats from which its CPU no longer tells how much room is left."""
    swing_room: float = 2.5
    """Standard deviations of the idle utilisation that stay free: what others do swings while joins are under way."""

    # Slow start.

    calm_index: float = 0.4
    """Slow start doubles while the index is below this share of the equilibrium, and ends above (study)."""
    double_limit: float = 2.5
    """Doubling never goes above so many times what was really in flight (study)."""
    feed_forward_limit: float = 6.0
    """The estimate by utilisation never goes above so many times what was in flight (study)."""
    feed_forward_share: float = 0.8
    """Utilisation that slow start aims at; below it, utilisation is linear in the joins in flight."""
    full_share: float = 1.1
    """Utilisation at which growth ends: above it delay has a cliff and not a slope."""
    committed_share: float = 1.0
    """The same where nothing holds joins back once they are ordered: no delay may tell then that it was too much."""
    requests_per_join: float = 250.0
    """What a join costs before the first has been seen (counted: 200-250 requests)."""

    # Stale.

    stale_hold_s: float = 60.0
    """How long the window holds when the signals are lost (study)."""
    stale_drift_s: float = 120.0
    """How long it then takes to fall to half."""

    # Memory.

    knee_trust: float = 1.15
    """What the next scale-up begins with, relative to the remembered knee. More than it: the knee is a mean of swings,
    and the first joins load the servers only later, while what is let in too slowly is lost at once."""
    knee_weight: float = 0.1
    """Weight of a new sample in the knee's moving average (study)."""
    forget_s: float = 3 * 86_400.0
    """Half of what is remembered is forgotten after this time."""

    # Stock and admission.

    join_guess_s: float = 80.0
    """Duration of a join before the first one has ended, for the stock: real joins take 60-90 s."""
    guess_trust: float = 0.5
    """A cold start tries this share of the joins that idle requests' cost allows, if that is more than
    `window_initial`: joins may be heavier than they seem (K, with joins four times as heavy, stays clean at a half)."""
    join_guess_least_s: float = 30.0
    """The same for slow start, which must not be late where joins are quick."""
    boot_guess_s: float = 120.0
    """Boot time before the first machine was heard of."""
    stock_pace: float = 0.5
    """Share of the estimated pace at which the last machine must still be let in before its time limit (study)."""
    deadline_s: float = 90.0
    """Held machines go first from so long before their time limit."""
    pacing: float = 0.85
    """Joins are let in at this share of the pace at which a full window renews itself: most of a join's work comes
    early, so bursts hurt; and the window is reached only when joins slow down."""
    burst_s: float = 6.0
    """So many seconds of that pace may go in at once: one step of the loop, and a bit."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{field.name} {value}: accepted are finite numbers, 0 or more")
        if not 1 <= self.window_min <= self.window_initial <= self.window_max:
            raise ValueError(
                f"window {self.window_min:g} <= {self.window_initial:g} <= {self.window_max:g}: "
                "accepted are bounds in this order, 1 or more"
            )
        if not self.queue < 1:
            raise ValueError(f"queue {self.queue:g}: accepted are shares below 1")

    @property
    def equilibrium(self) -> float:
        """The index at which the window rests: T / (1 - q)."""
        return self.target / (1.0 - self.queue)

    @property
    def calm_below(self) -> float:
        """The index below which the servers are calm."""
        return self.calm_index * self.equilibrium

    def with_patience(self, baseline_s: float) -> Self:
        """The same for prompt joins and for waves; `baseline_s` is the delay that the index is relative to."""
        delay_s = self.patient_delay_s if self.has_gate else self.wave_delay_s
        return replace(self, target=max(self.target, (1.0 - self.queue) * delay_s / baseline_s))


UNLIMITED = 100_000
"""More machines in flight than any cluster has nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Joins in flight."""

    initial: int
    min: int
    max: int


PRESETS: Mapping[Preset, Bounds] = MappingProxyType(
    {
        Preset.GENERIC: Bounds(initial=24, min=2, max=5000),
        # Ultra clusters were measured at 33 ready nodes per second; at joins of 60 s that is 2,000 in flight.
        Preset.EKS: Bounds(initial=24, min=2, max=2000),
        # Above 1,000 nodes: steps of 500 to 700, then a pause.
        Preset.AKS: Bounds(initial=24, min=2, max=700),
        # Batches of 50; one small server is the rule.
        Preset.K3S: Bounds(initial=8, min=2, max=50),
    }
)
"""Provider -> bounds."""


def law_settings(spec: ThrottleSpec, daemon_sets: Iterable[DaemonSet] = ()) -> LawSettings:
    """What the user bounds; never raises for a spec that keeps the rules of `throttler.api.throttle_rules`."""
    bounds = window_bounds(spec.window, PRESETS[spec.preset])
    levers = levers_in_effect(spec.levers, daemon_sets)
    # Where the user says how a cold start begins, idle CPU does not make it more.
    guess_trust = LawSettings().guess_trust if spec.window.initial is None else 0.0
    return LawSettings(
        guess_trust=guess_trust,
        window_initial=bounds.initial,
        window_min=bounds.min,
        window_max=bounds.max,
        max_in_flight=spec.max_in_flight or UNLIMITED,
        has_gate=any((levers.startup_taint, levers.daemon_set_label)),
        max_wait_s=spec.max_wait_s,
        kill_timer_s=spec.kill_timer_s,
        reserved_nodes=spec.reserved.nodes,
        safe_per_min=spec.pace.safe_per_minute,
        max_per_min=spec.pace.max_per_minute,
    )


def window_bounds(window: Window, preset: Bounds) -> Bounds:
    """The preset's figures give way to those that are given: `max: 10` alone also lowers where a scale-up begins."""
    asked = [bound for bound in (window.min, window.initial, window.max) if bound is not None]
    low = window.min or min([preset.min, *asked])
    high = window.max or max([preset.max, *asked])
    return Bounds(initial=window.initial or min(max(preset.initial, low), high), min=low, max=high)
