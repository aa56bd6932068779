"""The law's figures: studies and real runs chose them, and every floor of the benchmarks holds for these alone."""

from dataclasses import asdict

from throttler.law.settings import LawSettings

CHOSEN = {
    "window_initial": 24,
    "window_min": 2,
    "window_max": 5000,
    "max_in_flight": 100000,
    "has_gate": True,
    "registers_freely": False,
    "max_wait_s": 600.0,
    "kill_timer_s": 900.0,
    "reserved_nodes": 2,
    "safe_per_min": None,
    "max_per_min": None,
    "brake_share": 0.001,
    "brake_errors": 5.0,
    "baseline_s": 180.0,
    "baseline_floor_s": 0.02,
    "baseline_ceiling_s": 0.1,
    "never_seen_s": 300.0,
    "target": 9.0,
    "prompt_patience": 4.0,
    "queue": 0.4,
    "gain": 0.2,
    "used_share": 0.6,
    "cut": 0.05,
    "cut_limit": 0.15,
    "room_gain": 0.25,
    "room_boost": 3.0,
    "beyond_knee": 0.75,
    "seats_taken": 0.7,
    "swing_room": 2.5,
    "calm_index": 0.4,
    "double_limit": 2.5,
    "feed_forward_limit": 6.0,
    "feed_forward_share": 0.8,
    "full_share": 1.1,
    "committed_share": 1.0,
    "requests_per_join": 250.0,
    "brake_every_s": 30.0,
    "brake_pause_s": 15.0,
    "stale_hold_s": 60.0,
    "stale_drift_s": 120.0,
    "knee_trust": 1.15,
    "knee_weight": 0.1,
    "forget_s": 259200.0,
    "join_guess_s": 80.0,
    "guess_trust": 0.5,
    "join_guess_least_s": 30.0,
    "boot_guess_s": 120.0,
    "stock_pace": 0.5,
    "deadline_s": 90.0,
    "pacing": 0.85,
    "burst_s": 6.0,
}


def test_a_figure_is_not_changed_by_accident() -> None:
    """Whoever changes one on purpose changes it here as well, and runs `python -m benchmarks.pacing`."""
    assert asdict(LawSettings()) == CHOSEN
