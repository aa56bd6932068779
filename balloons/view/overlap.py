"""Pools that select the same nodes: which of the older ones' nodes a younger pool's balloons must keep off. Pure.

A node counts for the first pool that selects it. A balloon of another one holds nothing there, and would be removed and
made again for as long as the scheduler prefers that node. So it is told by labels where not to go: node affinity can
say "not what this selector selects", as one alternative for each thing that the selector asks for. See
docs/decisions/0015-overlapping-pools.md.
"""

from collections.abc import Iterable, Sequence

from balloons.api.pool import BalloonPool
from balloons.view.claim import Claim, is_bought_by_karpenter
from throttler.kube.karpenter import is_refused_in_pods
from throttler.kube.selectors import LabelSelector, Requirement, are_contrary, opposite, requirements

Term = tuple[Requirement, ...]
"""One alternative of a node affinity: all of it must hold."""
MOST_TERMS = 32
"""Alternatives in one affinity. A selector that would make more of them is not kept off."""


def selectors_to_avoid(
    pool: BalloonPool, terms: Sequence[Term], stored: Sequence[Term], claim: Claim, before: Iterable[BalloonPool]
) -> tuple[LabelSelector, ...]:
    """The selectors of pools that come `before` this one, of whose nodes its balloons must keep off.

    `terms` is where its balloons may go by its own selector, `stored` where its Deployment lets them go now (empty
    where there is none). A change of that replaces every balloon. So a pool is added when the first balloon was seen
    to stray to its nodes, or when the Deployment is to be made, and stays for as long as it comes first. Where
    Karpenter makes the nodes, selectors with labels that it refuses in a pod are left out: it would make none any more.
    """
    if not claim.lost and all(map(_is_no_longer, stored, terms)):
        return ()
    avoided = []
    for other in before:
        selector = other.spec.nodes.selector
        is_said = bool(stored) and all(_rules_out(term, selector) for term in stored)
        is_needed = other.key in claim.lost and (not stored or other.key in claim.strayed_to)
        if (is_said or is_needed) and not all(_rules_out(term, selector) for term in terms):
            avoided.append(selector)
    if any(map(_is_refused_by_karpenter, avoided)) and is_bought_by_karpenter(pool, claim):
        return tuple(selector for selector in avoided if not _is_refused_by_karpenter(selector))
    return tuple(avoided)


def _is_no_longer(stored: Term, own: Term) -> bool:
    return len(stored) <= len(own)


def _is_refused_by_karpenter(selector: LabelSelector) -> bool:
    return any(is_refused_in_pods(part.key) for part in requirements(selector))


def _rules_out(term: Term, selector: LabelSelector) -> bool:
    """Whether a node that meets the term cannot be one that the selector selects."""
    return any(are_contrary(own, other) for other in requirements(selector) for own in term)


def away_from(terms: Sequence[Term], selectors: Iterable[LabelSelector]) -> list[Term]:
    """These alternatives without the nodes that any of the selectors selects.

    A selector that leaves nothing, or more than `MOST_TERMS` alternatives, changes nothing.
    """
    alternatives = list(terms)
    for selector in selectors:
        parted: dict[Term, None] = {}
        for term in alternatives:
            rest = [term] if _rules_out(term, selector) else _without(term, selector)
            parted.update(dict.fromkeys(rest))
        if 0 < len(parted) <= MOST_TERMS:
            alternatives = list(parted)
    return alternatives


def _without(term: Term, selector: LabelSelector) -> list[Term]:
    """One alternative for each thing that a node may lack of what the selector asks for."""
    lacks = [opposite(part) for part in requirements(selector)]
    # Karpenter reads the first alternative to see whether a pod is for its nodes, and that may not be "not mine".
    lacks.sort(key=lambda part: part.operator == "DoesNotExist")
    return [(*term, lack) for lack in lacks if not any(are_contrary(lack, own) for own in term)]
