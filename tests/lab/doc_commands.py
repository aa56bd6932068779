"""The commands that a page of the documentation shows, as they stand there, and the nodes that they are about."""

import re
from pathlib import Path

from lab.cloud.machines import PaperNode

ROOT = Path(__file__).resolve().parents[2]
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, heading: str) -> list[str]:
    """The blocks of commands below a heading of the second level; raises KeyError if there is none of that name."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts = _HEADING.split(text)
    return _BLOCK.findall(dict(zip(parts[1::2], parts[2::2], strict=True))[heading])


def idle_nodes() -> list[PaperNode]:
    """Two nodes of README's pool, set apart by a taint, so that nothing but its balloons runs there."""
    labels, taint = {"example.com/pool": "gpu"}, {"key": "gpu", "effect": "NoSchedule"}
    return [PaperNode(name=f"gpu-{number}", labels=labels, taints=(taint,)) for number in range(2)]


def tolerating(commands: str) -> str:
    """README's pool, tolerating that taint."""
    selector = "{matchLabels: {example.com/pool: gpu}}"
    assert f"{{selector: {selector}}}" in commands
    return commands.replace(selector, f"{selector}, tolerations: [{{key: gpu, operator: Exists}}]")
