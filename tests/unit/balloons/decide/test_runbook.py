"""Every reason has a section in the runbook, and the runbook has no section for anything else."""

import re
from pathlib import Path

from balloons.decide.because import Reason

RUNBOOK = Path(__file__).resolve().parents[4] / "docs" / "runbook.md"


def test_the_runbook_has_a_section_for_each_reason_and_no_other() -> None:
    sections = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert len(sections) == len(set(sections))
    assert set(sections) == {reason.code for reason in Reason}
