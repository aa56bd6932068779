"""Every reason has a section in the runbook, and the runbook has no section for anything else."""

import re
from pathlib import Path

from balloons.decide.pool_reasons import Reason
from throttler.law.throttle_reasons import ThrottleReason
from throttler.levers.hold import HoldReason
from throttler.levers.lever import LeverReason
from throttler.service.status_because import StatusReason

REASONS = (Reason, ThrottleReason, LeverReason, HoldReason, StatusReason)
RUNBOOK = Path(__file__).resolve().parents[4] / "docs" / "runbook.md"


def test_the_runbook_has_a_section_for_each_reason_and_no_other() -> None:
    # Alerts have sections of their own: tests/unit/monitoring/test_alerts.py.
    sections = re.findall(r"^### (?!KubeBalloons)(\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert len(sections) == len(set(sections))
    assert set(sections) == {reason.code for reasons in REASONS for reason in reasons}
