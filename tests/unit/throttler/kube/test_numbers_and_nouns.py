"""A number and its noun agree: in every reason's sentence, and in whatever else the product says."""

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

import balloons
import throttler
from balloons.decide.decision_and_reasons import Reason
from throttler.kube.quantities_and_durations import count, plural
from throttler.kube.reasons_and_events import Because, Sentence
from throttler.law.verdict import ThrottleReason
from throttler.levers.admission_queue import AdmissionReason
from throttler.levers.lever_and_reasons import LeverReason
from throttler.service.throttle_status import StatusReason

REASONS = (Reason, ThrottleReason, LeverReason, AdmissionReason, StatusReason)
SENTENCES = [sentence for reasons in REASONS for sentence in reasons]
NOUN = "API server|balloon|check|cut|DaemonSet|figure|file|image|join|lever|line|machine|node|object|pod|pool|resource"
BETWEEN = r"(?:(?:more|held|warm|waiting|wanted|idle) )*"
MANY = re.compile(rf"^ {BETWEEN}(?:{NOUN})s\b(?!/)")
"""`nodes/s` is a unit."""
SOURCES = sorted(
    path for module in (balloons, throttler) for root in module.__path__ for path in Path(root).rglob("*.py")
)


def test_count_and_plural() -> None:
    assert [count(number, "node") for number in (0, 1, 2, 2000)] == ["0 nodes", "1 node", "2 nodes", "2,000 nodes"]
    assert count(1, "node is", "nodes are") == "1 node is"
    assert count(0.6, "machine") == "1 machine"
    assert plural(3, "it", "them") == "them"


def said(reason: Sentence, number: int) -> str:
    names = {name for _, name, _, _ in Formatter().parse(str(reason.value)) if name}
    return Because(reason, dict.fromkeys(names, number)).sentence


@pytest.mark.parametrize("reason", SENTENCES, ids=lambda reason: f"{type(reason).__name__}.{reason.name}")
def test_a_reason_says_one_node_and_two_nodes(reason: Sentence) -> None:
    assert not re.search(rf"\b1 {BETWEEN}(?:{NOUN})s\b", said(reason, 1)), said(reason, 1)
    assert not re.search(rf"\b2 {BETWEEN}(?:{NOUN})\b", said(reason, 2)), said(reason, 2)


def may_be_one(number: ast.FormattedValue) -> bool:
    """A bound in capitals is more than one, and what is quoted is no number."""
    value = number.value
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    return not name.isupper() and number.conversion != ord("r")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-3:]))
def test_no_text_writes_a_plural_behind_any_number(path: Path) -> None:
    """`count` knows one from many."""
    found = [
        f"{path}:{text.lineno}: {ast.unparse(number)}{after.value}"
        for text in ast.walk(ast.parse(path.read_text()))
        if isinstance(text, ast.JoinedStr)
        for number, after in zip(text.values, text.values[1:], strict=False)
        if isinstance(number, ast.FormattedValue) and isinstance(after, ast.Constant) and MANY.match(str(after.value))
        if may_be_one(number)
    ]
    assert found == []
