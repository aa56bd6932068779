"""Reasons: one closed list, each with its sentence and its section on a page of reasons.

Each can be said with the details its call sites give, and each is used. The runbook leads to the section of every
reason, and no page has a section for anything else.
"""

import ast
import re
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import balloons
from balloons.decide.decision_and_reasons import Reason
from throttler.kube.reasons_and_events import Because
from throttler.law.verdict import ThrottleReason
from throttler.levers.admission_queue import AdmissionReason
from throttler.levers.lever_and_reasons import LeverReason
from throttler.service.throttle_status import StatusReason

CORE = Path(next(iter(balloons.__path__)))
VARIABLE = {"STEADY", "WARMING"}
"""Chosen into a variable first; the decisions that say them are tested elsewhere."""
REASONS = (Reason, ThrottleReason, LeverReason, AdmissionReason, StatusReason)


@cache
def call_sites() -> dict[str, list[set[str]]]:
    """The detail names of every `because(Reason.X, name=...)` in the package, by reason."""
    found: dict[str, list[set[str]]] = {}
    for path in sorted(CORE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "because"):
                continue
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "Reason":
                    found.setdefault(part.attr, []).append({str(keyword.arg) for keyword in node.keywords})
    return found


def wanted(reason: Reason) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(reason.value) if name}


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_every_call_site_gives_what_the_sentence_needs(reason: Reason) -> None:
    assert reason.name in call_sites() or reason.name in VARIABLE, "nobody says this"
    for given in call_sites().get(reason.name, []):
        assert given == wanted(reason)


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_every_sentence_can_be_said(reason: Reason) -> None:
    said = Because(reason, dict.fromkeys(wanted(reason), 7)).sentence
    assert said
    assert "{" not in said


def test_codes_are_unique_and_fit_for_events() -> None:
    codes = [reason.code for reason in Reason]
    assert len(set(codes)) == len(codes)
    assert all(code.isalnum() and code[0].isupper() for code in codes)


DOCS = Path(__file__).resolve().parents[4] / "docs"
REASON_PAGES = ("pool-reasons.md", "throttle-reasons.md", "lever-reasons.md")


def reasons_of(page: str) -> list[str]:
    """The words that have a section on that page."""
    return re.findall(r"^### (\w+)$", (DOCS / page).read_text(), re.MULTILINE)


def test_one_page_has_a_section_for_each_reason_and_none_for_anything_else() -> None:
    sections = [word for page in REASON_PAGES for word in reasons_of(page)]
    assert len(sections) == len(set(sections))
    assert set(sections) == {reason.code for reasons in REASONS for reason in reasons}


def test_the_runbook_leads_from_each_reason_to_its_section() -> None:
    # Alerts have sections of their own: tests/unit/monitoring/test_alerts.py.
    leads = re.findall(
        r"\[([A-Z]\w+)\]\(([\w-]+\.md)#(\w+)\)", (DOCS / "runbook.md").read_text().partition("## Alerts")[0]
    )
    assert sorted(leads) == sorted((word, page, word.lower()) for page in REASON_PAGES for word in reasons_of(page))
