"""docs/doctor.md, from the checks themselves: `python -m tools.doctor_page > docs/doctor.md`."""

from collections.abc import Iterable

from balloons.doctor.check import Check
from balloons.doctor.diagnose import ALL_CHECKS

_INTRO = """# Doctor

`balloons doctor` looks for what makes warm capacity, autoscaling or pacing fail silently. It only reads, works with a
viewer's rights, with or without our CRDs, on clusters run by cluster-autoscaler or Karpenter, on a dump (`--from`)
and on manifests (`-f`).
This page is made from the checks themselves; codes never change their meaning.

![balloons doctor](pictures/doctor.svg)

- **error**: something does not do what it is for, now. **warning**: it will not under load. **info**: worth knowing.
- Exit code 0 whatever is found, 3 with `--fail-on warning` or `--fail-on error` when there is such a finding, or when
  such a check could not look: a gate never passes on what was not seen.
- What passed is named. Manifests in which no check finds anything to look at are bad input (2); templates of Helm
  charts in a folder are passed over (`helm template CHART | balloons doctor -f -`).
- `--only KB001,KB002` and `--skip KB017` choose checks; a check that could not see what it needs is named as skipped.

| code | severity | finds |
|---|---|---|
"""


def page(checks: Iterable[Check]) -> str:
    """The whole page, with one anchor for each code."""
    listed = tuple(checks)
    rows = [f"| [{check.code}](#{check.code.lower()}) | {check.severity.word} | {check.title} |" for check in listed]
    return _INTRO + "\n".join(rows) + "\n" + "".join(map(_section, listed))


def _section(check: Check) -> str:
    live = " Not looked for in manifests (`-f`): what they leave out may be there." if check.is_live_only else ""
    reads = ", ".join(kind.name for kind in (*check.needs, *check.also)) or "whatever was read"
    return f"\n## {check.code}\n\n**{check.title}** ({check.severity.word})\n\n{check.about}{live}\n\nReads: {reads}.\n"


if __name__ == "__main__":
    print(page(ALL_CHECKS), end="")
